#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Ways to wait and to connect: sleeping until woken, peer error handling, client and server. Ways to
# allocate device memory, and an HCA that has the driver copy it.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

ops=tag,tag_unexpected,am,am_rndv,stream,put,get
sizes=0,1,8,4097,65536,1048576
kinds=host:host,cuda:cuda,cuda:host,host:managed
run ucp_transfer --wakeup --ops $ops --kinds $kinds --sizes $sizes
run ucp_transfer --wakeup --ranks 5 --window 64 --ops tag,put --kinds cuda:cuda --sizes 8,65536
run ucp_transfer --peer-errors --ops $ops --kinds $kinds --sizes $sizes
run ucp_transfer --ops $ops --kinds pool:pool,vmm:vmm,pool:vmm,host:pool --sizes $sizes
SOFTHCA_DEVICE_COPY=driver
export SOFTHCA_DEVICE_COPY
section "copies by the driver"
run ucp_transfer --ops $ops --kinds $kinds,pool:vmm,pool:pool --sizes $sizes
run ucp_transfer --wakeup --ops $ops --kinds cuda:cuda,host:cuda --sizes $sizes
unset SOFTHCA_DEVICE_COPY
section ""
export UCX_TLS=gdr,tcp
run ucp_transfer --client-server --ops $ops --kinds $kinds --sizes $sizes
run ucp_transfer --client-server --wakeup --peer-errors --ranks 5 --ops tag,am --kinds cuda:cuda --sizes 8,65536
done_testing
