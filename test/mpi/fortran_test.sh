#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# MPI's calls in Fortran's three bindings (mpi_fortran), and in the large forms of mpi_f08 where MPI has them, on one to five ranks, with every
# MPI that is installed: in host memory, in GPU memory, and each rank's each buffer in either at random. FORTRAN_TEST_SEED repeats another run.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

bindings=('' mpif.h 'use mpi' 'use mpi_f08' 'use mpi_f08 with large counts')
seed=${FORTRAN_TEST_SEED-$RANDOM}
note "FORTRAN_TEST_SEED=$seed"
# Ranks that wait let others run.
export MPIR_CVAR_POLLS_BEFORE_YIELD=1 OMPI_MCA_mpi_yield_when_idle=1
export MALLOC_PERTURB_=165 # the bindings free the arrays that they convert

# try_binding MPI BINDING NUMBER host|cuda|random
try_binding() {
    local what="$1, ${bindings[$2]}, $3 ranks, $4 memory"
    if ranks "$1" "$3" "$work/$1.$2/mpi_fortran" "$4" "$seed" && grep -q '^[1-9][0-9]* calls$' "$log"; then
        ok "$what"
        note "$(grep '^[0-9]* calls$' "$log")"
    else
        grep -v '^call: ' "$log" >"$work/said"
        not_ok "$what" "$work/said"
        note "$(grep '^call: ' "$log" | tail -n 1)"
    fi
}

# takes MPI MODULE STATEMENT: whether that module of it does.
takes() {
    printf 'use %s\ninteger :: buffer(1), error\nlogical :: flag\n%s\nend\n' "$2" "$3" >"$work/takes.f90"
    "mpif90.$1" -fsyntax-only "$work/takes.f90" 2>/dev/null
}

takes_large() { takes "$1" mpi_f08 'call MPI_Send(buffer, 1_MPI_COUNT_KIND, MPI_INTEGER, 0, 0, MPI_COMM_SELF)'; }
takes_large_of_files() { takes "$1" mpi_f08 'call MPI_File_read(MPI_FILE_NULL, buffer, 1_MPI_COUNT_KIND, MPI_INTEGER, MPI_STATUS_IGNORE)'; }
takes_logical() { takes "$1" mpi 'call MPI_Parrived(0, 0, flag, error)'; }

# compile MPI BINDING
compile() {
    local families=() options=()
    "$top_builddir/test/mpi/mpi_calls.$1" --lacking | grep -qx MPI_Bcast_init && options+=(-DOPEN_MPI_4)
    if [[ $2 = 4 ]]; then
        options+=(-DLARGE)
        takes_large_of_files "$1" && options+=(-DLARGE_FILES)
    fi
    [[ $2 != 2 ]] || takes_logical "$1" || options+=(-DINTEGER_FLAG)
    mapfile -t families < <(printf '%s\n' "$top_srcdir"/test/mpi/fortran/*.f90 | grep -v -e _forms -e /calls.f90)
    mkdir "$work/$1.$2"
    "mpif90.$1" -cpp -w -fallow-argument-mismatch -ffree-line-length-none "${options[@]}" -DBINDING=$(($2 < 4 ? $2 : 3)) -I"$top_srcdir/test/mpi" \
        -J"$work/$1.$2" "$top_srcdir/test/mpi/fortran/calls.f90" "${families[@]}" "$top_srcdir/test/mpi/mpi_fortran.f90" \
        -o "$work/$1.$2/mpi_fortran" "$softcuda/libcuda.so.1"
}

compiled=
for mpi in "${mpis[@]}"; do
    command -v "mpif90.$mpi" >/dev/null || continue
    compiled=yes
    for binding in 1 2 3 4; do
        [[ $binding != 4 ]] || takes_large "$mpi" || continue
        compile "$mpi" $binding || { not_ok "$mpi, ${bindings[binding]}, is compiled" && continue; }
        try_binding "$mpi" $binding 2 host
        try_binding "$mpi" $binding "$(numbers 4)" cuda
        for number in $(numbers 1 3 5); do
            try_binding "$mpi" $binding $number random
        done
    done
done
[[ -n $compiled ]] || skip_all "no mpif90 of an MPI (contrib/install-deps --test)"
done_testing
