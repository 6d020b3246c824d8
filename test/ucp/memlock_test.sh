#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Several workers under a limit of locked memory: those for which some is left use the HCA, the others have
# UCX's other transports. None fails, and who names gdr is told which does without.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

log=$(mktemp) || exit 99
trap 'rm -f "$log"' EXIT
export SOFTHCA_MEMLOCK=enforce

# workers KIB COUNT WITHOUT: so many workers with a limit, of which so many do without the HCA ("some": one
# at least, but not all).
workers() {
    (
        ulimit -S -l "$1" || exit 99
        timeout -k 5 300 env LD_PRELOAD="$runtime$softhca:$module" "$programs/ucp_workers" "$2"
    ) >"$log" 2>&1
    status=$?
    without=$(grep -c 'gdr: a worker has to do without softhca0:1.*ulimit -l' "$log")
    case $status,$3 in
    0,some) [ "$without" -gt 0 ] && [ "$without" -lt "$2" ] ;;
    0,*) [ "$without" = "$3" ] ;;
    *) false ;;
    esac && {
        echo "ok: $1 KiB, $2 workers: $without without the HCA"
        return
    }
    echo "FAILED: $1 KiB, $2 workers (status $status): $without without the HCA, expected $3"
    cat "$log"
    failed=1
}

export UCX_TLS=gdr,tcp
for limit in 64 2048 3000 4096 8192; do
    workers $limit 1 0
done
workers 64 4 0 # the port is left out for all
for limit in 2048 3000 4096 8192; do
    workers $limit 8 some
done
UCX_PROTO_ENABLE=y workers 3000 4 some
# Who does not name gdr is told nothing.
export UCX_TLS=^ib
workers 3000 4 0
exit $failed
