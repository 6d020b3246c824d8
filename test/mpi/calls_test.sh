#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# MPI calls over gdr on the emulated devices, with every MPI of the distribution that is installed:
# all on host memory, then each on GPU memory, small and large. A call either works, with every
# element checked, or dies with the module's message that names it. Prints docs/mpi.md's table; for
# the MPIs at hand it has to be what that file says.
#
# --write: puts the table into docs/mpi.md.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

document=$top_srcdir/docs/mpi.md
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_pml=ucx OMPI_MCA_osc=ucx OMPI_MCA_pml_ucx_tls=any OMPI_MCA_pml_ucx_devices=any
export OMPI_MCA_btl_base_warn_component_unused=0
export LD_PRELOAD="" TMPDIR=$work

case ${GDR_SANITIZERS:-none} in
none) ;;
*)
    echo "MPI libraries are not run under a sanitizer"
    exit 77
    ;;
esac

mpis=()
for mpi in openmpi mpich; do
    if command -v mpicxx.$mpi >/dev/null && command -v mpirun.$mpi >/dev/null; then
        mpicxx.$mpi -std=c++20 -O1 -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX ${CUDA_CFLAGS:-} \
            "$top_srcdir/test/mpi/mpi_calls.cpp" -o "$work/mpi_calls.$mpi" -ldl || exit 99
        mpis+=("$mpi")
    fi
done
if [[ ${#mpis[@]} -eq 0 ]]; then
    echo "no mpicxx.openmpi or mpicxx.mpich (libopenmpi-dev openmpi-bin, libmpich-dev mpich)"
    exit 77
fi

# ranks MPI N ARGUMENT...: mpi_calls on N ranks.
ranks() {
    local mpi=$1 number=$2
    shift 2
    timeout -k 5 60 mpirun.$mpi -n "$number" env LD_PRELOAD="$softhca:$module" \
        "$work/mpi_calls.$mpi" "$@" >"$work/log" 2>&1 </dev/null
}

# What becomes of CALL on GPU memory: "works", "message" or "FAILED".
outcome() {
    local mpi=$1 call=$2 count=$3
    if ranks "$mpi" 2 "$call" cuda "$count"; then
        echo works
    elif grep -q "gdr: .*the CPU touched GPU memory .* in MPI_" "$work/log"; then
        echo message
    else
        sed 's/^/    /' "$work/log" | head -n 15 >&2
        echo FAILED
    fi
}

for mpi in "${mpis[@]}"; do
    for number in 2 4; do
        for count in 16 100000; do
            if ranks "$mpi" $number all host $count; then
                echo "ok: $mpi, $number ranks, all calls on $count integers of host memory"
            else
                echo "FAILED: $mpi, $number ranks, $count integers of host memory"
                head -n 30 "$work/log"
                failed=1
            fi
        done
    done
done

{
    printf '| call |'
    for mpi in "${mpis[@]}"; do printf ' %s, 64 B | %s, 400 kB |' "$mpi" "$mpi"; done
    printf '\n|---|'
    for mpi in "${mpis[@]}"; do printf -- '---|---|'; done
    echo
    while read -r call; do
        printf '| `%s` |' "$call"
        for mpi in "${mpis[@]}"; do
            for count in 16 100000; do printf ' %s |' "$(outcome "$mpi" "$call" $count)"; done
        done
        echo
    done < <("$work/mpi_calls.${mpis[0]}" --list)
} >"$work/table"
cat "$work/table"
if grep -q FAILED "$work/table"; then
    echo "FAILED: a call on GPU memory neither works nor dies with the message"
    failed=1
fi

between() { sed -n '/^<!-- table -->$/,/^<!-- end of the table -->$/p' "$document" | grep '^|'; }
if [[ ${1-} == --write ]]; then
    sed -i -e "/^<!-- table -->$/,/^<!-- end of the table -->$/{/^|/d}" \
        -e "/^<!-- table -->$/r $work/table" "$document"
elif [[ ${#mpis[@]} -eq 2 ]] && ! diff <(between) "$work/table"; then
    echo "FAILED: docs/mpi.md says otherwise; test/mpi/calls_test.sh --write"
    failed=1
fi
exit $failed
