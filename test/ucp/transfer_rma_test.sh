#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Put and get between all kinds of memory, and atomics on host and device memory.
set -u

# shellcheck source=test/ordinary_user.sh
. "$top_srcdir/test/ordinary_user.sh"
# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

# 16 KiB: from there on protocols v1 take registered memory as such, and not before.
sizes=0,1,8,63,127,128,129,4095,4097,8256,8257,16383,16384,65536,1048576,34603008
run ucp_transfer --ops put,get --kinds "$(rma_kinds)" --sizes $sizes
run ucp_transfer --ops put,get --kinds cuda:cuda,host:cuda --sizes 8,65536 --window 64 --iterations 10
# Not on managed memory: UCX 1.13's emulation of atomics, which is what remains for memory that no
# HCA registers, fails an assertion of its own.
atomics=atomic_add,atomic_fadd,atomic_swap,atomic_cswap,atomic_bitwise
run ucp_transfer --ops $atomics --kinds host:host,host:cuda --window 64 --iterations 5
done_testing
