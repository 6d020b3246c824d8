#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What the MPI layer adds to a call whose buffers are in host memory, in instructions by callgrind, with every MPI that
# is installed: where the process has no GPU, and where it uses one. Prints docs/results/mpi.md's figures, and holds
# them below a bound; system calls, which callgrind does not count, it is to have none. And what one MPI_Allreduce of a
# number in GPU memory takes: of calls of the CUDA driver (two copies, each with a look at the context, the wait, which from
# the GPU begins with an event, and the capture mode twice; the context and the capture mode twice again to wait for what
# is sent, as MPI is asked of what is received meanwhile; and what the buffers are, once for an allocation; where both buffers
# are read, one copy more and nothing else), of instructions of the layer's own code (the rest
# is MPI's and the emulated driver's), and of allocations, which are none. Between two ranks nobody asks the driver about
# the memory that stands in for the GPU's. And what a message of a rank to itself takes, sent and received, as a test of the
# message rate has them, with and without the layer and the module, by library.
set -u

command -v valgrind >/dev/null || skip_all "no valgrind (contrib/install-deps --test)"
# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

# count MPI host|gpu|staged, or MPI messages host|gpu BYTES: into the file callgrind, for 1,000 calls of each kind.
count() {
    # UCX's memory hooks change code that has run: valgrind has to look.
    ranks "$1" 1 valgrind -q --tool=callgrind --smc-check=all --compress-strings=no --toggle-collect='measured_*' \
        --callgrind-out-file="$work/callgrind" "$top_builddir/test/mpi/mpi_cost.$1" "${@:2}"
}

# costs MPI host|gpu: lines "CALL INSTRUCTIONS", for one call, of all that it executes.
costs() {
    count "$1" "$2" &&
        awk '/^cfn=.*make_/ { name = $0; sub(/.*make_/, "", name); sub(/\(.*/, "", name); getline; getline
            printf "%s %.0f\n", name, $2 / 1000 }' "$work/callgrind" | sort
}

# staged_cost MPI: "INSTRUCTIONS ALLOCATIONS" of the layer's own code, for one staged call.
staged_cost() {
    count "$1" staged &&
        awk '/^ob=/ { ours = /gdr_module|libgdr_mpi/ }
            /^cfn=/ { allocates = /^cfn=(malloc|calloc|realloc|operator new)/ }
            /^calls=/ { if (ours && allocates) allocations += substr($1, 7); getline; next }
            /^[-+*0-9]/ && ours { instructions += $2 }
            END { printf "%.0f %.0f\n", instructions / 1000, allocations / 1000 }' "$work/callgrind"
}

# message_cost MPI host|gpu BYTES: "LAYER MODULE REST", instructions of the layer's library, of the module and what preloads it,
# and of all others, for one message.
message_cost() {
    UCX_TLS=self,gdr count "$1" messages "$2" "$3" &&
        awk '/^ob=/ { whose = /libgdr_mpi/ ? "layer" : /gdr_module|libuct_gdr/ ? "module" : "rest" }
            /^calls=/ { getline; next }
            /^[-+*0-9]/ { instructions[whose] += $2 }
            END { for (whose in instructions) instructions[whose] /= 1000 * 64
                printf "%.1f %.1f %.1f\n", instructions["layer"], instructions["module"], instructions["rest"] }' "$work/callgrind"
}

# driver_calls MPI staged|fetched CALLS: but for the queries of events, whose number is chance.
driver_calls() {
    SOFTCUDA_STATS=1 ranks "$1" 1 "$top_builddir/test/mpi/mpi_cost.$1" "$2" "$3" &&
        awk '/^softcuda: .* driver API calls$/ { all = $2 } /^softcuda: .* cuEventQuery$/ { queries = $2 } END { print all - queries }' "$log"
}

# questions MPI CALLS: of the driver by two ranks, what memory something is.
questions() {
    SOFTCUDA_STATS=1 ranks "$1" 2 "$top_builddir/test/mpi/mpi_cost.$1" staged "$2" &&
        awk '/^softcuda: .* cuPointerGetAttributes$/ { all += $2 } END { print all }' "$log"
}

# system_calls MPI CALLS: of the main thread, but for those of progress, whose number is chance.
system_calls() {
    ranks "$1" 1 strace -o "$work/strace" "$top_builddir/test/mpi/mpi_cost.$1" gpu "$2" && wc -l <"$work/strace"
}

for mpi in "${mpis[@]}"; do
    if strace -o /dev/null true 2>/dev/null; then
        few=$(system_calls "$mpi" 100) && many=$(system_calls "$mpi" 1100) || few=0 many=500
        note "$mpi: $((many - few)) system calls for 1,000 calls of each kind on host memory"
        check "$mpi: no system calls for calls on host memory" [ $((many - few)) -lt 500 ]
    fi
    for kind in staged:14 fetched:15; do
        few=$(driver_calls "$mpi" "${kind%:*}" 100) && many=$(driver_calls "$mpi" "${kind%:*}" 1100) || few=0 many=0
        note "$mpi: $((many - few)) calls of the driver, and queries of an event, for 1,000 calls (${kind%:*})"
        check "$mpi: calls of the driver for each call (${kind%:*})" [ $((many - few)) -gt 0 ]
        check "$mpi: ${kind#*:} of them at most (${kind%:*})" [ $((many - few)) -le "${kind#*:}100" ]
    done
    few=$(questions "$mpi" 100) && many=$(questions "$mpi" 1100) || few=0 many=0
    note "$mpi: $((many - few)) questions what memory something is, for 1,000 calls of two ranks"
    check "$mpi: questions what memory something is" [ $((many - few)) -gt 0 ]
    check "$mpi: one for each rank's call at most" [ $((many - few)) -le 2100 ]
    read -r instructions allocations < <(staged_cost "$mpi")
    note "$mpi: ${instructions:=0} instructions of the layer's code, ${allocations:=1} allocations for a staged call"
    check "$mpi: a staged call has instructions of the layer's" [ "$instructions" -gt 0 ]
    check "$mpi: 4,800 of them at most" [ "$instructions" -le 4800 ]
    expect "$mpi: a staged call allocates nothing" 0 "$allocations"
    GDR_PRELOAD=$emulated_hca:$module costs "$mpi" gpu >"$work/without" &&
        SOFTCUDA_DEVICES=0 costs "$mpi" host >"$work/idle" && costs "$mpi" gpu >"$work/gpu" || {
        not_ok "$mpi under callgrind" "$log"
        continue
    }
    paste -d ' ' "$work/without" "$work/idle" "$work/gpu" | awk -v mpi="$mpi" -v idle=60 -v gpu=60 '
        { printf "%s %s: %d instructions without the layer, %d more without a GPU, %d more with one\n", mpi, $1, $2, $4 - $2, $6 - $2
          if ($4 - $2 > idle || $6 - $2 > gpu) failed = 1 }
        END { exit failed || NR < 5 }' >"$work/said"
    expect "$mpi: the layer costs 60 instructions a call at most" 0 $?
    cat "$work/said"
    for bytes in 8 1024; do
        {
            GDR_PRELOAD='' message_cost "$mpi" host $bytes
            SOFTCUDA_DEVICES=0 message_cost "$mpi" host $bytes
            message_cost "$mpi" host $bytes
            message_cost "$mpi" gpu $bytes
        } | awk -v what="$mpi, a message of $bytes bytes" '
            { layer[NR] = $1; module[NR] = $2; rest[NR] = $3; all[NR] = $1 + $2 + $3
              printf "%s: %.1f instructions of the layer, %.1f of the module, %.1f in all %s\n", what, $1, $2, all[NR],
                     NR == 1 ? "without both" : NR == 2 ? "with both, without a GPU" : \
                     NR == 3 ? "where there is a GPU that the process does not use" : "where MPI was given memory of a GPU" }
            END { exit !(NR == 4 && layer[1] + module[1] == 0 && rest[1] > 0 &&
                         layer[2] > 0 && layer[2] <= 25 && module[2] <= 1 && rest[2] <= 1.01 * rest[1] && rest[2] >= 0.99 * rest[1] &&
                         layer[3] > 0 && layer[3] <= 25 && module[3] <= 25 && rest[3] <= rest[1] + 35 &&
                         layer[4] > 0 && layer[4] <= 25 && module[4] <= 50 && all[4] - all[1] <= 360) }' >"$work/said"
        expect "$mpi: messages of $bytes bytes of host memory cost as little as they may" 0 $?
        cat "$work/said"
    done
done
done_testing
