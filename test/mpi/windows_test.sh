#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Puts and gets of GPU memory at windows of every kind (mpi_windows), with every MPI that is installed, and Open MPI's layer for
# windows in shared memory left out. What UCX carries goes directly: MPI libraries have other ways, on which the CPU copies.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

# right MPI COUNT WHAT: COUNT ranks.
right() {
    rm -f "$work/statistics"
    UCX_GDR_STATS=$work/statistics ranks "$1" "$2" "$top_builddir/test/mpi/mpi_windows.$1"
    if [[ $(grep -c '^rank . done' "$log") -ne $2 ]] || grep -q '^rank . wrong' "$log"; then
        echo "FAILED: $1, $2 ranks$3:"
        head -n 30 "$log"
        failed=1
    else
        echo "ok: $1, $2 ranks$3"
    fi
    for how in direct staged; do
        [[ $(grep -c "mpi_${how}_bytes=[1-9]" "$work/statistics") -eq $2 ]] || { echo "FAILED: $1$3: not $how by each rank" && failed=1; }
    done
}

for mpi in "${mpis[@]}"; do
    OMPI_MCA_osc=ucx,sm right "$mpi" 2 ""
    OMPI_MCA_osc=ucx,sm right "$mpi" 3 ""
done
exit $failed
