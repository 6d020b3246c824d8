#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Captures of CUDA streams in one thread while another one transfers: with GPUDirect, staged, and with
# the emulated HCA itself copying by the driver.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

for way in dmabuf peermem none; do
    SOFTHCA_GPU_DIRECT=$way
    export SOFTHCA_GPU_DIRECT
    section "$way"
    run ucp_capture
done
SOFTHCA_GPU_DIRECT=dmabuf SOFTHCA_DEVICE_COPY=driver
export SOFTHCA_DEVICE_COPY
section "copies by the driver"
run ucp_capture
done_testing
