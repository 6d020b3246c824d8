#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Device buffers in the steady state: allocations, registrations and CUDA calls are counted by
# ucp_steady itself; system calls by strace, in a short and a long run whose numbers must agree.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

# Peers ask each other whether they are there, which allocates nothing either.
export UCX_GDR_RC_KEEPALIVE_INTERVAL=50ms
run ucp_steady 100000
run ucp_steady 10000 host
unset UCX_GDR_RC_KEEPALIVE_INTERVAL
[ $failed = 0 ] || exit 1

case ${GDR_SANITIZERS:-none} in
none) ;;
*)
    echo "system calls are not counted under a sanitizer"
    exit 0
    ;;
esac
strace -o /dev/null true 2>/dev/null || {
    echo "system calls are not counted: no strace, or it may not trace"
    exit 0
}
counts=$(mktemp) || exit 99
trap 'rm -f "$counts"' EXIT

# The number of system calls of all threads of a run with so many operations of each kind.
system_calls() {
    strace -f -c -o "$counts" env LD_PRELOAD="$softhca:$module" \
        timeout 300 "$programs/ucp_steady" "$1" >/dev/null || exit 1
    awk '$NF == "total" { print $4 }' "$counts"
}

# The threads that wake up by the clock make a few more calls in a longer run.
tolerance=500
short=$(system_calls 10000)
long=$(system_calls 110000)
echo "system calls: $short in the short run, $long with 300000 operations more"
if [ -z "$short" ] || [ -z "$long" ] || [ $((long - short)) -gt $tolerance ]; then
    cat "$counts"
    echo "FAILED: operations make system calls"
    exit 1
fi
