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

# Copies by CUDA IPC that cost nothing but their bytes are chosen at all sizes.
by_ipc() {
    UCX_GDR_IPC=y UCX_GDR_IPC_OVERHEAD=0us UCX_GDR_IPC_LATENCY=0us "$@"
}
by_ipc run ucp_ipc_steady
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

# system_calls PROGRAM OPERATIONS: those of all threads of a run with so many operations of each kind, that $filter
# lets pass.
filter='!sched_yield' # the emulated HCA's and the program's, where processors are few
system_calls() {
    strace -f -c -e "trace=$filter" -o "$counts" env LD_PRELOAD="$softhca:$module" \
        timeout 300 "$programs/$1" "$2" >/dev/null || exit 1
    awk '$NF == "total" { print $4 }' "$counts"
}

# The threads that wake up by the clock make a few more calls in a longer run.
tolerance=500

# compare PROGRAM SHORT LONG: runs with so many operations.
compare() {
    short=$(system_calls "$1" "$2")
    long=$(system_calls "$1" "$3")
    echo "$1: $short system calls with $2 operations of each kind, $long with $3"
    if [ -z "$short" ] || [ -z "$long" ] || [ $((long - short)) -gt $tolerance ]; then
        cat "$counts"
        echo "FAILED: operations make system calls"
        exit 1
    fi
}
compare ucp_steady 10000 110000

# The emulated GPU's threads wait for copies, UCX's thread by its clock, however long that takes; the program yields
# while it polls, and asks at its barriers whether the other process has come.
filter='!futex,epoll_wait,sched_yield,recvfrom'
by_ipc compare ucp_ipc_steady 1000 11000
