#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# The MPI layer's constants are those of the mpi.h of each MPI that is installed, and of MPI's standard ABI (mpi_abi.h, which
# Python's package of MPICH 5 has, or that of the directory MPI_ABI_INCLUDE); and what it preloads has a call for each of its
# two names.
set -u
# shellcheck source=test/lib.sh
. "$top_srcdir/test/lib.sh"

checked=0
for mpi in openmpi mpich; do
    program=$top_builddir/test/mpi/abi_check.$mpi
    [ -x "$program" ] || continue
    checked=$((checked + 1))
    check "$mpi" "$program"
done

python=$(python3 -c 'import sysconfig; print(sysconfig.get_path("data"))' 2>/dev/null)
standard=0
for directory in ${MPI_ABI_INCLUDE-} ${python:+"$python/include"}; do
    [ -f "$directory/mpi_abi.h" ] || continue
    standard=$((standard + 1))
    echo "#include \"$directory/mpi_abi.h\"" >"$work/mpi.h"
    rm -f "$work/abi_check"
    ${CXX-c++} -std=c++20 -I"$work" -I"$top_srcdir/src" "$top_srcdir/test/mpi/abi_check.cpp" -o "$work/abi_check"
    check "the standard ABI, $standard" "$work/abi_check"
    note "$directory"
done
[ $standard -gt 0 ] || skip_case "the standard ABI" "no mpi_abi.h (PyPI's mpich has one; MPI_ABI_INCLUDE is the directory where it is)"

[ $((checked + standard)) -gt 0 ] || skip_all "neither Open MPI nor MPICH (contrib/install-deps --test)"

# Those that would make a program believe that there is an MPI are not among them.
exported=$(nm -D --defined-only "$top_builddir/src/mpi/entries/.libs/libgdr_mpi.so.0" | awk '{ print $3 }')
expect "what has the name of PMPI has the other, too" "" "$(printf '%s\n' "$exported" | sed -n 's/^PMPI_/MPI_/p' |
    while read -r name; do printf '%s\n' "$exported" | grep -qx "$name" || echo "$name"; done)"
for name in MPI_Init MPI_Init_thread MPI_Initialized MPI_Finalize; do
    expect "$name is not there" "" "$(printf '%s\n' "$exported" | grep -x "$name")"
done
done_testing
