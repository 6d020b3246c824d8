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

# spawns MPI NUMBER [COMMAND]... MEMORY
spawns() {
    local mpi=$1 number=$2
    shift 2
    timeout -k 5 60 "$(mpirun_of "$mpi")" -n "$number" "${@:1:$#-1}" "$top_builddir/test/mpi/mpi_spawn.$mpi" "${@: -1}" \
        >"$work/log" 2>&1 </dev/null
}

for mpi in openmpi mpich; do
    if ! mpirun_of $mpi >/dev/null; then
        skip_case "$mpi" "it is not installed"
        continue
    fi
    if ! spawns $mpi 1 host; then
        skip_case "$mpi" "it spawns no process"
        note "$(head -n 5 "$work/log")"
        continue
    fi
    for number in 1 2; do
        for memory in host cuda; do
            spawns $mpi $number "$tool" run "$emulate_hca" --emulate-gpu $memory
            status=$?
            sed 's/^/    /' "$work/log"
            expect "$mpi, $number ranks, $memory" 0 $status
        done
    done
done
[[ -s $tap_results ]] || skip_all "neither Open MPI nor MPICH (contrib/install-deps --test)"
done_testing
