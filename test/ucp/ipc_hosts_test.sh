#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# CUDA IPC stays within a host, and changes nothing where a host has one process. Needs root.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/ucp/ipc.sh
. "$top_srcdir/test/ucp/ipc.sh"

[ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null || skip_all "no right to have another host's name (root, and mount namespaces)"
UCPTEST_APART=y by hca "another host" $large cuda:cuda
section "two hosts with two processes each"
UCPTEST_APART=y run ucp_transfer --ranks 4 --ops $messages,put,get --kinds cuda:cuda,vmm:cuda,host:cuda \
    --sizes 8,65536,1048576

# One rank a host: what UCP chooses is the same with it and without. On one host it is not.
# Addresses of workers and the width of the tables' columns are left out.
tables() {
    UCX_PROTO_INFO=y run ucp_transfer --ops tag,am,put,get --kinds cuda:cuda,host:cuda \
        --sizes 8,4096,65536,1048576 >"$work/log" 2>&1
    grep FAILED "$work/log" >&2
    sed -n 's/^\[[^]]*\] \[[^]]*\] *|/|/p' "$work/log" | sed 's/0x[0-9a-f]*//g; s/  */ /g' | sort
}
for switch in y n; do
    section "together, UCX_GDR_IPC=$switch"
    UCX_GDR_IPC=$switch tables >"$work/together_$switch"
    section "one process a host, UCX_GDR_IPC=$switch"
    UCPTEST_APART=y UCX_GDR_IPC=$switch tables >"$work/apart_$switch"
done
section "one process a host"
note "$(wc -l <"$work/apart_n") rows of UCP's tables"
check "UCP's tables are the same with CUDA IPC and without" diff "$work/apart_n" "$work/apart_y"
check "and other ones on one host" [ "$(cmp -s "$work/together_n" "$work/together_y"; echo $?)" = 1 ]
done_testing
