#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Programs that "mpirun ucx-gdr run" starts spawn processes by MPI, and exchange host and GPU memory with them.
set -u

# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"
# shellcheck source=contrib/lib.sh
. "$top_srcdir/contrib/lib.sh"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 TMPDIR="$work"

# spawns MPI NUMBER MEMORY FORM [COMMAND]...
spawns() {
    local mpi=$1 number=$2 memory=$3 form=$4
    shift 4
    timeout -k 5 60 "$(mpirun_of "$mpi")" -n "$number" "$@" "$top_builddir/test/mpi/mpi_spawn.$mpi" "$memory" "$form" \
        >"$work/log" 2>&1 </dev/null
}

for mpi in openmpi mpich; do
    if ! mpirun_of $mpi >/dev/null; then
        skip_case "$mpi" "it is not installed"
        continue
    fi
    if ! spawns $mpi 1 host one; then
        skip_case "$mpi" "it spawns no process"
        note "$(head -n 5 "$work/log")"
        continue
    fi
    for number in 1 2; do
        for what in "host one" "host several" "host bare" "cuda one" "cuda several"; do
            # shellcheck disable=SC2086 # its two words
            spawns $mpi $number $what "$tool" run "$emulate_hca" --emulate-gpu
            status=$?
            sed 's/^/    /' "$work/log"
            expect "$mpi, $number ranks, $what" 0 $status
        done
    done
done
[[ -s $tap_results ]] || skip_all "neither Open MPI nor MPICH (contrib/install-deps --test)"
done_testing
