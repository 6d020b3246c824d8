#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Calls of all kinds on GPU memory, among them what is hard to stage: the same bytes as on host memory, with every MPI that
# is installed, on one to four ranks. COMPARE_TEST_SEED repeats another run.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

seed=${COMPARE_TEST_SEED-$RANDOM}
for mpi in "${mpis[@]}"; do
    for number in 1 2 3 4; do
        if ranks "$mpi" $number "$top_builddir/test/mpi/mpi_compare.$mpi" "$seed"; then
            echo "ok: $mpi, $number ranks, seed $seed"
        else
            echo "FAILED: $mpi, $number ranks, seed $seed, in or after $(grep -x '[a-z_]*' "$log" | tail -n 1)"
            grep -vx '[a-z_]*' "$log" | head -n 20
            failed=1
        fi
    done
done
exit $failed
