#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Messages by CUDA IPC among processes on one GPU and on two.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/ucp/ipc.sh
. "$top_srcdir/test/ucp/ipc.sh"

for devices in $numbers_of_gpus; do
    section "$devices GPUs"
    export SOFTCUDA_DEVICES=$devices
    ipc_messages
done
section "protocols v1"
if UCX_PROTO_ENABLE=n protocols_v1; then
    UCX_PROTO_ENABLE=n by ipc "large messages" $large cuda:cuda
    UCX_PROTO_ENABLE=n run ucp_transfer --ranks 4 --ops $messages --kinds all --sizes 8,65536,1048576
fi
done_testing
