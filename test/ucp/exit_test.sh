#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Transfers while the process ends, when the CUDA driver has gone.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

run ucp_exit
SOFTHCA_GPU_DIRECT=none run ucp_exit
done_testing
