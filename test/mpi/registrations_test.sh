#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Host memory that is sent again and again is registered once, with every MPI that is installed as it is: Open MPI's own hooks
# take the place of UCX's. And anew when it was unmapped.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

most=20 # of a process: its two buffers, and what UCX and gdr register for themselves

for mpi in "${mpis[@]}"; do
    rm -f "$work/statistics"
    UCX_GDR_STATS=$work/statistics ranks "$mpi" 2 "$top_builddir/test/mpi/mpi_registrations.$mpi"
    counts=$(sed -n 's/.* registrations=\([0-9]*\).*/\1/p' "$work/statistics" | sort -n | paste -sd ' ')
    if [[ $(grep -c '^rank . right$' "$log") -eq 2 && $counts =~ ^[0-9]+\ [0-9]+$ ]] && ((${counts% *} >= 2 && ${counts#* } <= most)) &&
        ! grep -q 'hooks are off' "$log"; then
        ok "$mpi"
    else
        not_ok "$mpi" "$log"
    fi
    note "'$counts' registrations"
done
done_testing
