#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# UCX 1.13's first generation of protocols (UCX_PROTO_ENABLE=n). Its put and get treat every local
# buffer as host memory: they need zero-copy for device memory and have no way for managed memory.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

first_protocols
sizes=0,1,8,63,4097,65536,1048576
run ucp_transfer --ops tag,tag_unexpected,am,am_rndv,stream --kinds all --sizes $sizes
run ucp_transfer --ops tag,am,stream --kinds cuda:cuda --layouts iov:iov --sizes $sizes
run ucp_transfer --ops tag,am,stream --kinds cuda:cuda --sizes 34603008
run ucp_transfer --ranks 5 --window 64 --ops tag,am --kinds cuda:cuda --sizes 8,65536
export UCX_ZCOPY_THRESH=0
run ucp_transfer --ops put,get --kinds host:host,host:cuda,cuda:host,cuda:cuda --sizes $sizes
run ucp_transfer --ops atomic_add,atomic_fadd,atomic_cswap --kinds host:host,host:cuda --window 64
exit $failed
