#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Puts and gets of GPU memory at windows of every kind (mpi_windows), with every MPI that is installed: what UCX carries goes directly,
# the rest, which MPI libraries copy with the CPU, is staged. Open MPI as ucx-gdr run has it: with its layer for windows in shared memory.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

export OMPI_MCA_osc=ucx,sm

# right MPI COUNT: COUNT ranks.
right() {
    rm -f "$work/statistics"
    UCX_GDR_STATS=$work/statistics ranks "$1" "$2" "$top_builddir/test/mpi/mpi_windows.$1"
    if [[ $(grep -c '^rank . done' "$log") -ne $2 ]] || grep -q '^rank . wrong' "$log"; then
        echo "FAILED: $1, $2 ranks:"
        head -n 30 "$log"
        failed=1
    else
        echo "ok: $1, $2 ranks"
    fi
    for how in direct staged; do
        [[ $(grep -c "mpi_${how}_bytes=[1-9]" "$work/statistics") -eq $2 ]] || { echo "FAILED: $1, $2 ranks: not $how by each rank" && failed=1; }
    done
}

for mpi in "${mpis[@]}"; do
    right "$mpi" 2
    right "$mpi" 3
done
exit $failed
