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
note "COMPARE_TEST_SEED=$seed"
for mpi in "${mpis[@]}"; do
    for number in $(numbers 1 2 3 4); do
        if ranks "$mpi" $number "$top_builddir/test/mpi/mpi_compare.$mpi" "$seed"; then
            ok "$mpi, $number ranks"
        else
            grep -vx '[a-z_]*' "$log" >"$work/said"
            not_ok "$mpi, $number ranks" "$work/said"
            note "in or after $(grep -x '[a-z_]*' "$log" | tail -n 1)"
        fi
    done
done
done_testing
