#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Device memory that the application frees is free at once, although it was registered by dmabuf, or soon where the
# driver's calls are not hooked.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

export SOFTHCA_GPU_DIRECT=dmabuf
export SOFTCUDA_MEMORY=20M # of six allocations of the program
run ucp_freed at_once
SOFTHCA_DEVICES=2 run_v2 ucp_freed at_once

section "without hooks"
export UCX_MEM_CUDA_HOOK_MODE=none
run ucp_freed
SOFTHCA_DEVICES=2 run_v2 ucp_freed
UCX_LOG_LEVEL=diag emulated ucp_freed 2>&1 | tee "$work/log"
expect "each rank says so once" 2 "$(grep -c 'not all device memory that is freed is seen: UCX_MEM_CUDA_HOOK_MODE' "$work/log")"
done_testing
