#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Staged calls of threads with any context of CUDA, or none, before and after a reset of the GPU (mpi_contexts), with
# every MPI that is installed, and in the last moments of threads. What a thread has pinned is not pinned when it has ended.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

for mpi in "${mpis[@]}"; do
    try "$mpi" "$mpi" 1 "$top_builddir/test/mpi/mpi_contexts.$mpi"
    expect "$mpi: contexts that are right, and current afterwards" 7 "$(grep -c ': right, current afterwards$' "$log")"
    expect "$mpi: memory of a thread that has ended is not pinned" "" "$(grep 'could not be pinned' "$log")"
    sed "s/^/$mpi: /" "$log"
done
done_testing
