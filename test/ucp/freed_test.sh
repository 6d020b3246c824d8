#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Device memory that the application frees is soon free, although it was registered by dmabuf.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

export SOFTHCA_GPU_DIRECT=dmabuf
export SOFTCUDA_MEMORY=20M # of six allocations of the program
run ucp_freed
SOFTHCA_DEVICES=2 run_v2 ucp_freed
done_testing
