#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Four to one and one to four at the same time, with many operations in flight.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

sizes=0,8,4097,65536
ops=tag,tag_unexpected,am,am_rndv,stream,put,get
run ucp_transfer --ranks 5 --window 64 --ops $ops --kinds host:host,cuda:cuda --sizes $sizes
run ucp_transfer --ranks 5 --ops tag,put,get --kinds cuda:cuda,managed:cuda --sizes 1048576
atomics=atomic_add,atomic_fadd,atomic_swap,atomic_cswap,atomic_bitwise
run ucp_transfer --ranks 5 --window 64 --ops $atomics --kinds host:host,host:cuda
done_testing
