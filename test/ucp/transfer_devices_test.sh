#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# The ways in which an HCA takes device memory, each alone, and RoCE instead of InfiniBand.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

messages=tag,am
rma=put,get
ops=$messages,$rma
kinds=cuda:cuda,host:cuda
sizes=0,8,4097,65536,1048576
for way in dmabuf peermem none; do
    section "device memory: $way"
    SOFTHCA_GPU_DIRECT=$way
    export SOFTHCA_GPU_DIRECT
    direct=$messages,$rma pool=$messages,$rma
    if protocols_v1; then # their put and get need memory that can be registered
        [ $way != none ] || direct=$messages
        [ $way = dmabuf ] || pool=$messages # peermem does not take it
    fi
    # Nor several mappings, which UCX is told; but v1 go by the type that the application names.
    segments=,segments:segments,host:segments
    [ $way != peermem ] || ! protocols_v1 || segments=
    run ucp_transfer --ops $direct --kinds $kinds,vmm:vmm --sizes $sizes
    run ucp_transfer --ops $pool --kinds pool:pool,host:pool$segments --sizes $sizes,7340032
done
unset SOFTHCA_GPU_DIRECT
section "dmabuf over PCIe alone, of GPUs that are joined by C2C"
SOFTCUDA_CPU_LINK=c2c SOFTHCA_PROFILE=dmabuf=pcie,peermem=no \
    run ucp_transfer --ops $ops --kinds cuda:cuda --sizes $sizes
section "copies by the driver, from GPU to GPU"
SOFTHCA_DEVICE_COPY=driver run ucp_transfer --ops $ops --kinds pool:pool,vmm:vmm,pool:cuda,cuda:vmm,segments:segments --sizes 8,65536
! on_softmlx5 || skip_all "softmlx5 emulates no Ethernet"
export SOFTHCA_LINK_LAYER=ethernet
section "Ethernet"
run ucp_transfer --ops $ops --kinds $kinds --sizes $sizes
export SOFTHCA_DEVICES=2
section "Ethernet, two HCAs"
run ucp_transfer --ops $ops --kinds $kinds --sizes $sizes
done_testing
