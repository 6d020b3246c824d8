#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Programs that use CUDA late or never: nobody initialises it before them, and no GPU has a context that they did not
# make, whether gdr is used or not. What they transfer from the GPU later goes by GPUDirect RDMA, as if CUDA had been
# there first.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

for protocols in n y; do
    export UCX_PROTO_ENABLE=$protocols
    for tls in gdr all; do
        export UCX_TLS=$tls
        section "UCX_PROTO_ENABLE=$protocols, UCX_TLS=$tls"
        for when in never fork visible second context messages; do
            run ucp_late $when
        done
        for ipc in y n; do
            section "UCX_PROTO_ENABLE=$protocols, UCX_TLS=$tls, UCX_GDR_IPC=$ipc"
            UCX_GDR_IPC=$ipc run ucp_late peer
        done
        UCX_GDR_IPC=y run ucp_late never
        section "UCX_PROTO_ENABLE=$protocols, UCX_TLS=$tls, an exclusive GPU"
        SOFTCUDA_COMPUTE_MODE=exclusive run ucp_late never
        SOFTCUDA_COMPUTE_MODE=exclusive run ucp_late second
    done
    export UCX_TLS=gdr
    if [ $protocols = y ]; then # v1 are told at once how GPUs are joined
        section "UCX_PROTO_ENABLE=$protocols, NVML"
        for when in never peer; do
            LD_DEBUG=files LD_DEBUG_OUTPUT=$work/$when run ucp_late $when
        done
        # Once to learn that there are GPUs, which emulated ones do not tell in /proc, and once what they are joined by.
        opened() { cat "$work/$1".* | grep -c 'calling init.*/libnvidia-ml'; }
        expect "nobody asks how GPUs are joined before one is used" 1 "$(opened never)"
        expect "but then" 2 "$(opened peer)"
    fi
    section "UCX_PROTO_ENABLE=$protocols, by rendezvous" # eager messages are staged by their receiver
    rm -f "$work/stats"
    UCX_GDR_STATS=$work/stats UCX_RNDV_THRESH=0 run ucp_late messages
    check "all goes by GPUDirect RDMA" grep -q ' gpudirect_bytes=[1-9][0-9]* staged_bytes=0 ' "$work/stats"
done
for tls in sm,self tcp,self ^gdr; do
    section "UCX_TLS=$tls"
    UCX_TLS=$tls run ucp_late unloaded
    UCX_TLS=$tls run ucp_late fork
done
done_testing
