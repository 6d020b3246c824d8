#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# UCP's choice between CUDA IPC and the HCA, from the costs as they are.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/ucp/ipc.sh
. "$top_srcdir/test/ucp/ipc.sh"

unset UCX_GDR_IPC_OVERHEAD UCX_GDR_IPC_LATENCY
small="ucp_transfer --ops tag --sizes 8,64,512 --kinds cuda:cuda"
section "small messages"
went $small
if [ "$(ucx_minor)" -ge 20 ]; then
    skip_case "not by IPC" "UCP reads messages of any size by it, from 1.20 on"
else
    expect "not by IPC" 0 "$ipc"
fi
section ""
by ipc "large messages" $large cuda:cuda
section "messages of host memory"
export UCX_PROTO_INFO=y
run ucp_transfer --ops tag --sizes 65536,33554432 --window 4 --kinds host:host >"$work/log" 2>&1
tail -n 1 "$work/log"
expect "not through GPU memory" "" "$(grep "frag cuda" "$work/log")"
done_testing
