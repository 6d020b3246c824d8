#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# CUDA IPC stays within a host, and changes nothing where a host has one process. Needs root.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/ucp/ipc.sh
. "$top_srcdir/test/ucp/ipc.sh"

[ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null || {
    echo "skipped: no right to have another host's name (root, and mount namespaces)"
    exit 77
}
UCPTEST_APART=y by hca "another host" $large cuda:cuda
echo "two hosts with two processes each"
UCPTEST_APART=y run ucp_transfer --ranks 4 --ops $messages,put,get --kinds cuda:cuda,vmm:cuda,host:cuda \
    --sizes 8,65536,1048576

# One rank a host: what UCP chooses is the same with it and without. On one host it is not.
# Addresses of workers and the width of the tables' columns are left out.
tables() {
    UCX_PROTO_INFO=y run ucp_transfer --ops tag,am,put,get --kinds cuda:cuda,host:cuda \
        --sizes 8,4096,65536,1048576 >"$work/log" 2>&1
    grep FAILED "$work/log"
    sed -n 's/^\[[^]]*\] \[[^]]*\] *|/|/p' "$work/log" | sed 's/0x[0-9a-f]*//g; s/  */ /g' | sort
}
for switch in y n; do
    UCX_GDR_IPC=$switch tables >"$work/together_$switch"
    UCPTEST_APART=y UCX_GDR_IPC=$switch tables >"$work/apart_$switch"
done
echo "one process a host: $(wc -l <"$work/apart_n") rows of UCP's tables"
if ! diff "$work/apart_n" "$work/apart_y"; then
    echo "FAILED: UCP's tables are not the same with CUDA IPC and without"
    failed=1
elif cmp -s "$work/together_n" "$work/together_y"; then
    echo "FAILED: UCP's tables tell nothing: they are the same on one host, too"
    failed=1
fi
exit $failed
