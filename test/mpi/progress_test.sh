#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# A call without buffers in which the CPU touches GPU memory: the message does not blame the call, but the
# operation that MPI progresses in it. (Open MPI's origin does by itself what MPI_Accumulate asks.)
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

export GDR_PRELOAD=$softhca:$module # without the MPI layer, which stages what is received here

for mpi in "${mpis[@]}"; do
    for operation in receive accumulate; do
        [[ $mpi-$operation != openmpi-accumulate ]] || continue
        ranks "$mpi" 2 "$top_builddir/test/mpi/mpi_progress.$mpi" $operation
        if grep -qE 'gdr: .* in MPI_(Wait|Barrier|Win_fence) of .* progressing another operation on that buffer' "$log"; then
            ok "$mpi, $operation"
            note "$(grep -aoE 'in MPI_[A-Za-z_]* of' "$log")"
        else
            not_ok "$mpi, $operation" "$log"
        fi
    done
done
done_testing
