#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# CUDA IPC among processes that CUDA_VISIBLE_DEVICES shows different GPUs, or the same in another order: each
# uses the first that it sees, or the next.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/ucp/ipc.sh
. "$top_srcdir/test/ucp/ipc.sh"

export SOFTCUDA_DEVICES=3
views='0;1 1;0 0,1;1,0 1,0;0 2;2'
extended || views='0;1 1,0;0'
for UCPTEST_VISIBLE_DEVICES in $views; do
    export UCPTEST_VISIBLE_DEVICES
    section "rank 0 and rank 1 see $UCPTEST_VISIBLE_DEVICES"
    by ipc "memory that opens" $large cuda:cuda,slice:cuda,vmm:vmm,vmm:cuda
    by hca "memory of a pool" $large pool:pool
    run ucp_transfer --ops $messages,put,get --kinds cuda:cuda,vmm:cuda,host:cuda,pool:vmm,managed:cuda,imported:cuda \
        --sizes 8,65536,1048576
    run ucp_stale tag,put,get
done
section "each sees its own"
export UCPTEST_VISIBLE_DEVICES='0;1;2'
run ucp_transfer --ranks 3 --ops $messages,put,get --kinds cuda:cuda,vmm:cuda --sizes 0,1,8,4097,65536,1048576 --window 4
export UCPTEST_VISIBLE_DEVICES='0;1'
SOFTCUDA_P2P=off by hca "GPUs that do not reach one another" $large cuda:cuda,vmm:vmm
done_testing
