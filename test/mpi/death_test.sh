#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# A rank is killed in the midst of collective calls on GPU memory, staged, by the GPUs, and by softnccl, with every MPI
# that is installed: the program ends as it does on host memory without the MPI layer, in as much time, and nothing of it is left.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

export SOFTCUDA_DEVICES=4 LD_LIBRARY_PATH=$top_builddir/test/emu/softnccl/.libs:$LD_LIBRARY_PATH

# end MPI host|cuda WAY: prints the status, the seconds, and how many processes are left.
end() {
    local start=$SECONDS status left
    NCCL_COMM_BLOCKING=1 UCX_GDR_MPI_COLL=$3 UCX_GDR_STATS=$work/statistics ranks "$1" 3 "$top_builddir/test/mpi/mpi_death.$1" "$2" 100000
    status=$?
    grep -q 'all ranks are at it' "$log" || { head -n 30 "$log" >&2; echo "never began"; return; }
    left=$(grep -ls "$top_builddir/test/mpi/mpi_deat[h].$1" /proc/[0-9]*/cmdline | wc -l)
    echo "$status $((SECONDS - start)) $left"
}

for mpi in "${mpis[@]}"; do
    read -r status seconds left < <(GDR_PRELOAD=$emulated_hca:$module end "$mpi" host stage)
    note "$mpi, on host memory without the layer: status $status, $seconds s, $left processes left"
    check "$mpi, on host memory without the layer: somebody is killed" [ "$status" -gt 0 ]
    for way in stage gpu nccl; do
        found=$(end "$mpi" cuda $way)
        read -r its its_seconds its_left <<<"$found"
        if [[ $its = "$status" && $its_seconds -le $((seconds + 10)) && $its_left -le $left ]]; then
            ok "$mpi, UCX_GDR_MPI_COLL=$way: it ends so, too"
        else
            not_ok "$mpi, UCX_GDR_MPI_COLL=$way: it ends so, too"
        fi
        note "status, seconds, processes left: $found"
    done
done
done_testing
