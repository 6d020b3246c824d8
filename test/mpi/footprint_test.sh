#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# 100,000 calls of MPI on GPU memory, of many kinds, and failing ones, with every MPI that is installed: the second half
# makes the process no larger than the same calls on host memory without the MPI layer.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"
# shellcheck source=test/mpi/growth.sh
. "$top_srcdir/test/mpi/growth.sh"

footprint() { ranks "$mpi" 2 "$top_builddir/test/mpi/mpi_footprint.$mpi" "$1" 100000; }

for mpi in "${mpis[@]}"; do
    grows_alike "$mpi" footprint
done
done_testing
