#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Peers killed while streams wait, and in each phase of prepared transfers. SYNC_DEATHS_ROUNDS: of a peer for each
# situation, two unless told.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
programs=$top_builddir/test/sync
export TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}suppressions=$top_srcdir/test/sync/thread.supp"
case ${GDR_SANITIZERS:-none} in # see Makefile.am
*thread*) export UCX_MEM_MMAP_HOOK_MODE=none ;;
esac
export UCX_GDR_RC_TIMEOUT=60ms UCX_GDR_RC_RETRY_COUNT=6 # the dead are noticed after 0.5 s
export UCX_KEEPALIVE_INTERVAL=200ms
rounds=${SYNC_DEATHS_ROUNDS:-2}
run sync_deaths "$rounds"
run sync_transfer_deaths "$rounds" direct
run sync_transfer_deaths "$rounds" ucp
done_testing
