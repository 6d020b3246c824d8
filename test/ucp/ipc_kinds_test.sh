#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Every kind of memory between processes of one host: by CUDA IPC or over the HCA, the data is right.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/ucp/ipc.sh
. "$top_srcdir/test/ucp/ipc.sh"

for devices in $numbers_of_gpus; do
    section "$devices GPUs"
    export SOFTCUDA_DEVICES=$devices
    ipc_kinds
done
done_testing
