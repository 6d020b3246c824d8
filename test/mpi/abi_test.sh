#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# The MPI layer's constants are those of the mpi.h of each MPI that is installed, and what it preloads has a call for
# each of its two names.
set -u

failed=0
checked=0
for mpi in openmpi mpich; do
    program=$top_builddir/test/mpi/abi_check.$mpi
    [ -x "$program" ] || continue
    checked=$((checked + 1))
    "$program" || failed=1
done
[ $checked -gt 0 ] || {
    echo "neither Open MPI nor MPICH (contrib/install-deps --test)"
    exit 77
}

# Those that would make a program believe that there is an MPI are not among them.
exported=$(nm -D --defined-only "$top_builddir/src/mpi/entries/.libs/libgdr_mpi.so.0" | awk '{ print $3 }')
for name in $(printf '%s\n' "$exported" | sed -n 's/^PMPI_/MPI_/p'); do
    printf '%s\n' "$exported" | grep -qx "$name" || { echo "FAILED: P$name is there, $name is not"; failed=1; }
done
for name in MPI_Init MPI_Init_thread MPI_Initialized MPI_Finalize; do
    ! printf '%s\n' "$exported" | grep -qx "$name" || { echo "FAILED: $name is there"; failed=1; }
done
exit $failed
