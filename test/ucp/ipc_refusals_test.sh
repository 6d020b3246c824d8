#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What opens by CUDA IPC goes by it, and what does not goes over the HCA.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/ucp/ipc.sh
. "$top_srcdir/test/ucp/ipc.sh"

ipc_openings
SOFTCUDA_IPC=legacy by ipc "handles alone: memory of cuMemAlloc" $large cuda:cuda
SOFTCUDA_IPC=legacy by hca "handles alone: memory of cuMemCreate" $large vmm:vmm
SOFTCUDA_IPC=fabric by ipc "fabric handles" $large fabric:fabric,vmm:fabric,fabric:cuda
SOFTCUDA_IPC=off by hca "no CUDA IPC" $large cuda:cuda,vmm:vmm
SOFTCUDA_P2P=off by hca "GPUs that do not reach one another" $large cuda:cuda,vmm:vmm
SOFTCUDA_P2P=off SOFTCUDA_DEVICES=1 by ipc "one such GPU" $large cuda:cuda,vmm:vmm
done_testing
