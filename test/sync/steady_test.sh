#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# The trigger path of libucx-gdr in the steady state: allocations and locks are counted by sync_steady itself, system
# calls of the library's thread by strace, in a short and a long run.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
programs=$top_builddir/test/sync
run sync_steady 2000
all_passed || done_testing
# shellcheck source=test/ucp/system_calls.sh
. "$top_srcdir/test/ucp/system_calls.sh"
filter=all
tolerance=20
compare sync_steady 200 1000
done_testing
