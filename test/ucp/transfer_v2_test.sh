#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Protocols v2 where they have to be asked for (UCX_PROTO_ENABLE=y, before UCX 1.16), as far as UCX has
# them there: docs/developers/defects.md lists what breaks in those of 1.13.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

protocols_v1 || skip_all "this UCX uses protocols v2 by itself, in every other test"
export UCX_PROTO_ENABLE=y
sizes=0,1,8,63,4097,65536,1048576
run ucp_transfer --ops tag,tag_unexpected,tag_sync,am,am_rndv,stream,put,get --kinds all --sizes $sizes
run ucp_transfer --ops tag,am,stream --kinds cuda:cuda --layouts iov:iov --sizes ${sizes#0,} # empty ones: UCX 1.15.0 crashes
run ucp_transfer --ops put,get --kinds host:host,host:cuda,cuda:host,cuda:cuda --layouts iov:contig --sizes 65536,1048576
run ucp_transfer --ops tag,am,put,get --kinds cuda:cuda --sizes 34603008
run ucp_transfer --ranks 5 --window 64 --ops tag,am,put --kinds cuda:cuda --sizes 8,65536
SOFTHCA_GPU_DIRECT=none run ucp_transfer --ops put,get --kinds cuda:cuda,host:cuda --sizes $sizes
done_testing
