#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Device memory that is freed and allocated again, with either way of registration.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

for way in dmabuf peermem; do
    SOFTHCA_GPU_DIRECT=$way
    export SOFTHCA_GPU_DIRECT
    section "$way"
    run ucp_stale
done
done_testing
