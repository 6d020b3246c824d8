#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Device memory that is freed and allocated again, with either way of registration, and where nobody tells that it was
# freed.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

for way in dmabuf peermem; do
    SOFTHCA_GPU_DIRECT=$way
    export SOFTHCA_GPU_DIRECT
    section "$way"
    run ucp_stale
    UCX_MEM_CUDA_HOOK_MODE=none check "ucp_stale, without hooks" emulated ucp_stale
done
done_testing
