#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Triggers and prepared transfers of libucx-gdr in the steady state: allocations and locks are counted by sync_steady
# itself, system calls by strace, in a short and a long run: of triggers those of the library's thread, of transfers those
# of all threads.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
programs=$top_builddir/test/sync
run sync_steady 2000 transfers
run sync_steady 2000 triggers
all_passed || done_testing
# shellcheck source=test/ucp/system_calls.sh
. "$top_srcdir/test/ucp/system_calls.sh"
filter=all
tolerance=20
compare sync_steady 200 1000 triggers
filter='!sched_yield' # threads that wait, where processors are few
compare sync_steady 200 1000 transfers
done_testing
