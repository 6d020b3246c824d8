#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Calls of MPI that functions make which MPI calls back, on GPU memory, with every MPI that is installed; also where collective
# calls are the GPUs'.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

for mpi in "${mpis[@]}"; do
    for number in 1 2; do
        program=$top_builddir/test/mpi/mpi_callbacks.$mpi
        GDR_PRELOAD=$emulated_hca:$module try "$mpi: host memory without the layer, $number ranks" $mpi $number "$program" host
        for by in stage gpu; do
            UCX_GDR_MPI_COLL=$by try "$mpi: $by, $number ranks" $mpi $number "$program" cuda
        done
    done
done
done_testing
