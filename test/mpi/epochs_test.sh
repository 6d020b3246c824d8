#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What is fetched from a window into GPU memory is there when the window is synchronised, with a request as well as without (mpi_epochs), with every MPI
# that is installed, wherever it is so in host memory without the MPI layer. (MPICH 4.0.2 completes the request of an MPI_Rget into a column
# before the data are there.)
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

# outcomes MPI host|cuda: what is wrong, on any rank.
outcomes() {
    ranks "$1" 2 "$top_builddir/test/mpi/mpi_epochs.$1" "$2" 5
    [[ $(grep -c '^rank . done' "$log") -eq 2 ]] || echo "it does not end"
    sed -n 's/^rank . wrong: //p' "$log" | sort -u
}

for mpi in "${mpis[@]}"; do
    GDR_PRELOAD=$softhca:$module outcomes "$mpi" host >"$work/host"
    rm -f "$work/statistics"
    UCX_GDR_STATS=$work/statistics outcomes "$mpi" cuda >"$work/cuda"
    comm -13 "$work/host" "$work/cuda" >"$work/wrong"
    if grep 'it does not end' "$work/host" || [[ -s $work/wrong ]]; then
        echo "FAILED: $mpi:"
        cat "$work/wrong"
        head -n 30 "$log"
        failed=1
    else
        echo "ok: $mpi; wrong in host memory, too: $(wc -l <"$work/host") ($(head -n 1 "$work/host"))"
    fi
    [[ $(grep -c 'mpi_staged_bytes=[1-9]' "$work/statistics") -eq 2 ]] || { echo "FAILED: $mpi: not staged by each rank" && failed=1; }
done
exit $failed
