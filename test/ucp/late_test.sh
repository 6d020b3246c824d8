#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Programs that use CUDA late or never: nobody initialises it before them, and no GPU has a context that they did not
# make, whether gdr is used or not. What they transfer from the GPU later goes by GPUDirect RDMA, as if CUDA had been
# there first.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

stats=$(mktemp) || exit 99
trap 'rm -f "$stats"' EXIT

for protocols in n y; do
    export UCX_PROTO_ENABLE=$protocols
    for tls in gdr all; do
        echo "UCX_TLS=$tls, UCX_PROTO_ENABLE=$protocols"
        export UCX_TLS=$tls
        for when in never fork visible second context messages; do
            run ucp_late $when
        done
        UCX_GDR_IPC=y run ucp_late never
        for ipc in y n; do UCX_GDR_IPC=$ipc run ucp_late peer; done
        SOFTCUDA_COMPUTE_MODE=exclusive run ucp_late never
        SOFTCUDA_COMPUTE_MODE=exclusive run ucp_late second
    done
    export UCX_TLS=gdr
    : >"$stats"
    UCX_GDR_STATS=$stats UCX_RNDV_THRESH=0 run ucp_late messages # eager messages are staged by their receiver
    grep -q ' gpudirect_bytes=[1-9][0-9]* staged_bytes=0 ' "$stats" || {
        echo "FAILED: not all went by GPUDirect RDMA: $(cat "$stats")"
        failed=1
    }
done
for tls in sm,self tcp,self ^gdr; do
    echo "UCX_TLS=$tls"
    UCX_TLS=$tls run ucp_late unloaded
    UCX_TLS=$tls run ucp_late fork
done
exit $failed
