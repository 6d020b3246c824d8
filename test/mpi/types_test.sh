#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Datatypes at random in MPI's calls, each buffer in host or GPU memory at random, on one to three ranks, with every
# MPI that is installed; and that it is kernels that pack where there are some, and copies where there are none.
# TYPES_TEST_SEED repeats another run.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

seed=${TYPES_TEST_SEED-$RANDOM}
note "TYPES_TEST_SEED=$seed"
kernels=$(sed -n "s/^KERNEL_CLANG = //p" "$top_builddir/Makefile")
for mpi in "${mpis[@]}"; do
    for number in $(numbers 1 2 3); do
        rm -f "$work/statistics"
        if UCX_GDR_STATS=$work/statistics SOFTCUDA_STATS=1 ranks "$mpi" $number "$top_builddir/test/mpi/mpi_types.$mpi" "$seed" 5; then
            ok "$mpi, $number ranks"
        else
            grep -v '^softcuda' "$log" >"$work/said"
            not_ok "$mpi, $number ranks" "$work/said"
        fi
        launches=$(awk '$3 == "cuLaunchKernel" { sum += $2 } END { print sum + 0 }' "$log")
        packed=$(sed 's/.* mpi_gpu_bytes=//' "$work/statistics" | awk '{ sum += $1 } END { print sum + 0 }')
        note "$launches launches, $packed bytes packed for messages"
        if [[ $kernels != no && $number -gt 1 ]]; then
            # of each rank, in the round that is the same for every seed, the first call sends and receives as much
            check "$mpi, $number ranks: kernels pack" [ "$launches" -gt 0 ]
            check "$mpi, $number ranks: as many bytes as there are" [ "$packed" -ge $((number * 2 * 2 * 40000)) ]
        elif [[ $kernels = no ]]; then
            expect "$mpi, $number ranks: no kernels in a build without" 0 "$launches"
        fi
    done
done
done_testing
