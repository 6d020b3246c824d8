#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Erroneous calls of MPI (mpi_errors, and mpi_fortran_errors in each of Fortran's bindings), with every MPI that is installed: in GPU
# memory they return the same classes of errors as in host memory without the MPI layer, to the same error handlers, leave alone what is left alone there, and calls that
# follow are right. The same where no memory can be pinned, and where GPUs make collective calls. What ends the process in host memory
# may end it, or return an error; a buffer that is freed while a request is under way is an error. 100,000 such calls
# make the process no larger than they do in host memory.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"
# shellcheck source=test/mpi/growth.sh
. "$top_srcdir/test/mpi/growth.sh"

without_layer=$emulated_hca:$module
with_layer=$GDR_PRELOAD

# outcomes MPI PROGRAM host|cuda CASE...: the program's lines, or "CASE rank=any dies" for the first behind which not all ranks are
# right: others may live on for a while. Those behind it are run anew.
outcomes() {
    local mpi=$1 program=$2 where=$3 at=0
    local cases=("${@:4}")
    while [[ $at -lt ${#cases[@]} ]]; do
        ranks "$mpi" 2 "$program" "$where" "${cases[@]:at}" && grep ' rank=' "$log" && return
        grep -q '^case: ' "$log" || { echo "none rank=any dies" && return; }
        while [[ $at -lt ${#cases[@]} && $(grep -c "^${cases[at]} rank=.* then=right\$" "$log") -eq 2 ]]; do
            grep "^${cases[at]} rank=" "$log"
            at=$((at + 1))
        done
        [[ $at -lt ${#cases[@]} ]] || at=$((at - 1)) # behind the last
        echo "${cases[at]} rank=any dies"
        at=$((at + 1))
    done
}

# compare WHAT HOST CUDA: two files of outcomes.
compare() {
    local status
    awk '
        function field(line, name) { match(line, " " name "=[^ ]*"); return substr(line, RSTART + length(name) + 2, RLENGTH - length(name) - 2) }
        function wrong(why) { print why ":\n    " host[$1, $2] "\n    " $0; failed = 1 }
        NR == FNR { host[$1, $2] = $0; if ($3 == "dies") dies[$1] = 1; next }
        { ++seen; given[$1, $2] = 1; if ($3 == "dies") given[$1, "rank=0"] = given[$1, "rank=1"] = 1 }
        $1 == "none" { wrong("it does not begin"); next }
        $3 == "dies" { if (!dies[$1] || $1 ~ /^(freed_before|beyond)/) wrong("it dies"); next }
        field($0, "then") != "right" { wrong("what follows"); next }
        dies[$1] || $1 ~ /^freed_before/ {
            n = split(field($0, "classes"), classes, ","); errors = 0
            for (i = 1; i <= n; ++i) errors += classes[i] != 0
            m = split(field($0, "handlers"), handlers, ","); handled = 0
            for (i = 1; i <= m; ++i) handled += handlers[i]
            if (!errors || errors != handled) wrong("an error that is not told")
            next
        }
        field($0, "classes") != field(host[$1, $2], "classes") { wrong("another class"); next }
        field($0, "handlers") != field(host[$1, $2], "handlers") { wrong("other calls of handlers"); next }
        field($0, "changed") != "none" && field($0, "changed") != field(host[$1, $2], "changed") { wrong("other buffers"); next }
        END {
            for (key in host) {
                split(key, name, SUBSEP)
                if (given[key] || dies[name[1]] && given[name[1], "rank=0"] && given[name[1], "rank=1"]) continue
                print "no outcome of " name[1] ", " name[2]; failed = 1
            }
            print seen " outcomes"
            exit failed
        }' "$2" "$3" >"$work/compared"
    status=$?
    if [[ $status -eq 0 ]]; then ok "$1"; else not_ok "$1" "$work/compared"; fi
    note "$(tail -n 1 "$work/compared")"
}

# against_host WHAT PROGRAM [CASE]...: these, or all of those that it lists, in GPU memory, beside host memory without the layer.
against_host() {
    local cases=("${@:3}")
    [[ ${#cases[@]} -gt 0 ]] || mapfile -t cases < <("$2" --list)
    GDR_PRELOAD=$without_layer outcomes "$mpi" "$2" host "${cases[@]}" >"$work/host"
    GDR_PRELOAD=$with_layer outcomes "$mpi" "$2" cuda "${cases[@]}" >"$work/cuda"
    compare "$1" "$work/host" "$work/cuda"
}

# Messages follow each: on softmlx5 they take as long as ranks take to take turns.
repetitions=100000
! on_softmlx5 || repetitions=10000
repeated() { ranks "$mpi" 2 "$c_program" "$1" --repeat $repetitions "${@:2}"; }

for mpi in "${mpis[@]}"; do
    if command -v "mpif90.$mpi" >/dev/null; then
        for binding in $(! extended || echo 1 2) 3; do
            "mpif90.$mpi" -cpp -w -fallow-argument-mismatch -DBINDING=$binding "$top_srcdir/test/mpi/mpi_fortran_errors.f90" \
                -o "$work/fortran" "$softcuda/libcuda.so.1" || { not_ok "$mpi, Fortran, binding $binding, is compiled" && continue; }
            against_host "$mpi, Fortran, binding $binding" "$work/fortran"
        done
    fi
    c_program=$top_builddir/test/mpi/mpi_errors.$mpi
    against_host "$mpi, a thread that ends in its error handler" "$c_program" send_rank_thread_left
    against_host "$mpi" "$c_program"
    # What returns, wherever its buffers are.
    mapfile -t living < <(awk '$3 == "dies" { dies[$1] = 1; next } { cases[++n] = $1 }
        END { for (i = 1; i <= n; ++i) if (!dies[cases[i]] && cases[i] !~ /^(freed|beyond|full)/ && !done[cases[i]]++) print cases[i] }' \
        "$work/host" "$work/cuda")
    printf '%s\n' "${living[@]}" >"$work/living"
    awk 'NR == FNR { living[$1] = 1; next } living[$1]' "$work/living" "$work/host" >"$work/returns"
    SOFTCUDA_PINNED=0 outcomes "$mpi" "$c_program" cuda "${living[@]}" >"$work/pageable"
    expect "$mpi: pageable memory is told of once by each rank" 2 "$(grep -c 'staged in pageable memory' "$log")"
    compare "$mpi, no memory can be pinned" "$work/returns" "$work/pageable"
    UCX_GDR_MPI_COLL=gpu outcomes "$mpi" "$c_program" cuda "${living[@]}" >"$work/gpus"
    compare "$mpi, UCX_GDR_MPI_COLL=gpu" "$work/returns" "$work/gpus"
    # Open MPI waits for ever for a request that was never started, where another one used its memory before.
    # What a call that is left by longjmp had in hand is lost, as docs/explanation/mpi-layer.md tells.
    mapfile -t repeatable < <(printf '%s\n' "${living[@]}" | grep -vE '^startall_one_null$|_left$')
    grows_alike "$mpi" repeated "${repeatable[@]}"
done
done_testing
