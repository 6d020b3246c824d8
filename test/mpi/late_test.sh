#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# MPI programs that use CUDA late or never (mpi_late), with every MPI that is installed: they are not initialised before,
# and have no context that they did not make, whichever transports carry their messages.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

# late MPI WHEN: both ranks say that it is right, in one line where MPI does not buffer what they write.
late() {
    local what="$1, UCX_TLS=$UCX_TLS: $2${UCX_GDR_IPC+, UCX_GDR_IPC=$UCX_GDR_IPC}${UCX_GDR_MPI_COLL+, $UCX_GDR_MPI_COLL}"
    if ranks "$1" 2 "$top_builddir/test/mpi/mpi_late.$1" "$2" && [[ $(grep -o right "$log" | wc -l) -eq 2 ]]; then
        ok "$what"
    else
        not_ok "$what" "$log"
    fi
}

for mpi in "${mpis[@]}"; do
    for UCX_TLS in gdr sm,self,gdr all; do
        for when in never fork visible second; do
            late "$mpi" $when
        done
        UCX_GDR_IPC=y late "$mpi" never
        UCX_GDR_MPI_COLL=gpu late "$mpi" never
    done
    for UCX_TLS in sm,self ^gdr; do
        late "$mpi" never
        late "$mpi" fork
    done
done
done_testing
