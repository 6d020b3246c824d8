# shellcheck shell=sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What the tests in the virtual machine share: the wire, and the module around a program, with
# emulated GPUs whose memory Soft-RoCE takes. Sourced.

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/vm/wire.sh
. "$top_srcdir/test/vm/wire.sh"

emulated_hca=$top_builddir/test/vm/.libs/libsoftpeermem.so # takes softhca's place in run()
export UCPTEST_DEADLINE=120                           # nothing is fast here

# Where processes that poll have both processors, packets are handled late. A READ that is repeated without
# need finds memory that is deregistered already; Soft-RoCE then fails the peer's queue pair.
export UCX_GDR_RC_TIMEOUT=500ms

# The bytes that went out over the wire so far, by both ends.
wire_bytes() {
    cat /sys/class/net/v0/statistics/tx_bytes /sys/class/net/v1/statistics/tx_bytes |
        awk '{ sum += $1 } END { print sum }'
}

# For UCPTEST_NET_DEVICES: the processes of even ranks at one end of the wire, those of odd ones at the other.
ends="rxe0:1;rxe1:1"

# As run, between these ends.
over_the_wire() {
    export UCPTEST_NET_DEVICES="$ends"
    run "$@"
    unset UCPTEST_NET_DEVICES
}
