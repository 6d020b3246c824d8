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

# dies MPI OPERATION CAUSE: in a call that is not the operation's.
dies() {
    ranks "$1" 2 "$top_builddir/test/mpi/mpi_progress.$1" "$2"
    if grep -qE "gdr: .* in MPI_(Wait|Barrier|Win_fence) of .* $3" "$log"; then
        ok "$1, $2"
        note "$(grep -aoE 'in MPI_[A-Za-z_]* of' "$log")"
    else
        not_ok "$1, $2" "$log"
    fi
}

for mpi in "${mpis[@]}"; do
    # The MPI layer stages what is received here.
    GDR_PRELOAD=$emulated_hca:$module dies "$mpi" receive 'What stages such calls, libgdr_mpi.so.0, is not in this process'
    [[ $mpi == openmpi ]] || dies "$mpi" accumulate 'progressing another operation on that buffer'
done
done_testing
