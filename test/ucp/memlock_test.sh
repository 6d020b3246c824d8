#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Several workers under a limit of locked memory: those for which some is left use the HCA, the others have
# UCX's other transports. None fails, and who names gdr is told which does without.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

log=$work/log
export SOFTHCA_MEMLOCK=enforce

# workers KIB COUNT WITHOUT: so many workers with a limit, of which so many do without the HCA ("some": one
# at least, but not all).
workers() {
    (
        ulimit -S -l "$1" || exit 99
        timeout -k 5 300 env LD_PRELOAD="$runtime$emulated_hca:$module" "$programs/ucp_workers" "$2"
    ) >"$log" 2>&1
    status=$?
    without=$(grep -c "gdr: a worker has to do without ${hca_name}0:1.*ulimit -l" "$log")
    name="$1 KiB, $2 workers: $3 without the HCA"
    if as_expected "$2" "$3"; then ok "$name"; else not_ok "$name" "$log"; fi
    note "status $status, $without without the HCA"
}
as_expected() { # COUNT WITHOUT
    case $status,$2 in
    0,some) [ "$without" -gt 0 ] && [ "$without" -lt "$1" ] ;;
    0,*) [ "$without" = "$2" ] ;;
    *) false ;;
    esac
}

export UCX_TLS=gdr,tcp
for limit in 64 2048 3000 4096 8192; do
    workers $limit 1 0
done
workers 64 4 0 # the port is left out for all
for limit in 2048 3000 4096 8192; do
    workers $limit 8 some
done
section "protocols v2"
UCX_PROTO_ENABLE=y workers 3000 4 some
# Who does not name gdr is told nothing.
section "UCX_TLS=^ib"
export UCX_TLS=^ib
workers 3000 4 0
done_testing
