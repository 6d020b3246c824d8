#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Device buffers in the steady state: allocations, registrations, mutexes and CUDA calls are counted
# by ucp_steady itself; system calls by strace, in a short and a long run whose numbers must agree.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

# Peers ask each other whether they are there, which allocates nothing either. On softmlx5 an answer takes as long as it
# takes the processes to take turns.
UCX_GDR_RC_KEEPALIVE_INTERVAL=50ms
! on_softmlx5 || UCX_GDR_RC_KEEPALIVE_INTERVAL=2s
export UCX_GDR_RC_KEEPALIVE_INTERVAL
run ucp_steady 100000
run ucp_steady 10000 host
export UCX_RNDV_THRESH=inf
section "without rendezvous"
run ucp_steady 10000 host
run_v2 ucp_steady 10000 host
unset UCX_RNDV_THRESH
section ""
unset UCX_GDR_RC_KEEPALIVE_INTERVAL

# Copies by CUDA IPC that cost nothing but their bytes are chosen at all sizes.
by_ipc() {
    UCX_GDR_IPC=y UCX_GDR_IPC_OVERHEAD=0us UCX_GDR_IPC_LATENCY=0us "$@"
}
by_ipc run ucp_ipc_steady
all_passed || done_testing

# shellcheck source=test/ucp/system_calls.sh
. "$top_srcdir/test/ucp/system_calls.sh"

# The adapter of softmlx5 does these all the time: transfers would wait while each stops at strace. They take long there,
# and other threads wake up by the clock meanwhile.
adapter=
! on_softmlx5 || adapter=,clock_nanosleep,getpid,process_vm_writev,epoll_wait,futex

filter="!sched_yield$adapter" # the emulated HCA's and the program's, where processors are few
tolerance=500         # the threads that wake up by the clock make a few more in a longer run
compare ucp_steady 10000 110000

# The emulated GPU's threads wait for copies, UCX's thread by its clock, however long that takes; the program yields
# while it polls, and asks at its barriers whether the other process has come.
filter="!futex,epoll_wait,sched_yield,recvfrom$adapter"
by_ipc compare ucp_ipc_steady 1000 11000
done_testing
