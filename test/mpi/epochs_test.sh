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

# Bytes, by the rank that holds most for an operation.
held() { sed -n 's/^rank . holds \(.*\) bytes.*/\1/p' "$log" | sort -n | tail -n 1; }

for mpi in "${mpis[@]}"; do
    GDR_PRELOAD=$emulated_hca:$module outcomes "$mpi" host >"$work/host"
    bare=$(held)
    rm -f "$work/statistics"
    UCX_GDR_STATS=$work/statistics outcomes "$mpi" cuda >"$work/cuda"
    comm -13 "$work/host" "$work/cuda" >"$work/wrong"
    expect "$mpi: it ends in host memory" "" "$(grep 'it does not end' "$work/host")"
    if [[ -s $work/wrong ]]; then not_ok "$mpi: all is there" "$work/wrong" "$log"; else ok "$mpi: all is there"; fi
    note "wrong in host memory, too: $(wc -l <"$work/host") ($(head -n 1 "$work/host"))"
    holds=$(held) # at most this much more than in host memory: what stands in for 8 bytes, and what tells of it
    check "$mpi: an operation of 8 bytes holds no page" [ "$holds" -le $((bare + 2048)) ]
    note "$mpi: bytes held by an operation: $bare in host memory, $holds staged"
    expect "$mpi: staged by each rank" 2 "$(grep -c 'mpi_staged_bytes=[1-9]' "$work/statistics")"
done
done_testing
