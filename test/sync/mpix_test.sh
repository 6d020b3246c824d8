#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# MPI on streams (mpix.h) on the emulated devices, with every MPI that is installed: each case of mpix.cpp, in host and
# GPU memory.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

export LD_LIBRARY_PATH=$top_builddir/src/sync/.libs:$LD_LIBRARY_PATH
flags="-O1 -Wall -Wextra -Werror -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX ${CUDA_CFLAGS:-} ${UCX_CFLAGS:-} \
    -I$top_srcdir/src -I$top_srcdir/test -I$top_srcdir/src/sync"

# build MPI: to $work/MPI.
build() {
    local compiler
    compiler=$(mpicxx_of "$1")
    # shellcheck disable=SC2086 # arguments
    "${compiler/mpicxx/mpicc}" -std=gnu99 $flags -c "$top_srcdir/test/sync/mpix_unit.c" -o "$work/$1.o" &&
        "$compiler" -std=c++20 $flags "$top_srcdir/test/sync/mpix.cpp" "$work/$1.o" -o "$work/$1" \
            -L"$top_builddir/src/sync/.libs" -lucx-gdr -ldl || exit 99
}

# refused MPI HOW WHY: mpix HOW, and a line that says why.
refused() {
    ranks "$1" 2 "$work/$1" "$2"
    expect "$1, $2: status" 0 $?
    check "$1, $2: the line that says what to do" grep -q "^ucx-gdr: MPIX_Stream_create: .*$3" "$log"
}

cases='order blocking requests lifetimes allreduce two_units graph partitions_by_cpu partitions_by_kernels errors'
for mpi in "${mpis[@]}"; do
    build "$mpi"
    for number in $(numbers 2 4); do
        for where in host cuda; do
            # shellcheck disable=SC2086 # cases
            ranks "$mpi" "$number" "$work/$mpi" $where $cases
            status=$?
            for case in $cases; do
                if grep -q "^passed: $case\$" "$log"; then
                    ok "$mpi, $number ranks, $where: $case"
                else
                    not_ok "$mpi, $number ranks, $where: $case" "$log"
                    note "status $status"
                    break
                fi
            done
            expect "$mpi, $number ranks, $where: status" 0 $status
        done
    done
    refused "$mpi" single MPI_Init_thread
    SOFTCUDA_DEVICES=0 refused "$mpi" none 'a CUDA context'
    SOFTCUDA_MEMOPS=0 refused "$mpi" none 'a CUDA context'
done
done_testing
