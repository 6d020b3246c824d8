#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# The collective calls of inter-communicators on GPU memory, with every MPI that is installed, on two to five ranks.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

for mpi in "${mpis[@]}"; do
    for number in $(numbers 2 3 5); do
        try "$mpi, $number ranks" "$mpi" $number "$top_builddir/test/mpi/mpi_intercomm.$mpi"
    done
done
done_testing
