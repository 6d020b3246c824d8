#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# MPI calls over gdr on the emulated devices, with every MPI of the distribution that is installed: all on
# host memory, then each on GPU memory, two and four ranks, small and large, and what does not die there on
# one to five ranks with each buffer on either at random, on one to four of a type with gaps, and by four threads of a rank at the same
# time. A landing has two ranks alone. A call either works, with every element checked, or dies with the module's message. Prints the table of docs/reference/mpi-calls-full.md; for the MPIs at hand it has to be what that
# file says. In which way calls work (direct, staged, by a kernel), which takes a run of its own for each, is seen of some
# at random: CALLS_TEST_SEED repeats another run.
#
# --write: puts the table into that page, with the ways of all calls.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

# try_calls WHAT MPI NUMBER ARGUMENT...: mpi_calls with these.
try_calls() { try "$2, $3 ranks, $1" "$2" "$3" "$top_builddir/test/mpi/mpi_calls.$2" "${@:4}"; }

for mpi in "${mpis[@]}"; do
    for number in $(numbers 2 4); do
        for count in 16 100000; do
            try_calls "all calls on $count integers of host memory" "$mpi" $number host $count
        done
    done
done

# way MPI CALL COUNT: how a call that works does so, by the module's counters: "direct", "staged", "gpu" where kernels
# pack or reduce, or "works" where no buffer is on a GPU.
way() {
    rm -f "$work/statistics"
    UCX_GDR_STATS=$work/statistics calls "$1" 2 cuda "$3" "$2" || explained || { echo FAILED && return; }
    awk '{ for (i = 2; i <= NF; i++) { split($i, word, "="); sum[word[1]] += word[2] } }
        END { print sum["mpi_gpu_bytes"] ? "gpu" : sum["mpi_staged_bytes"] ? "staged" : sum["mpi_direct_bytes"] ? "direct" : "works" }' "$work/statistics" 2>/dev/null || echo works
}

# outcomes MPI NUMBER COUNT: "works", "message" or "FAILED" for each of the calls present, on GPU memory. The one
# that dies takes the program with it: those behind it are run anew.
outcomes() {
    local mpi=$1 number=$2 count=$3 at=0 dies
    while [[ $at -lt ${#present[@]} ]]; do
        dies=${#present[@]}
        calls "$mpi" "$number" cuda "$count" "${present[@]:at}" || dies=$((at + $(grep -c '^call: ' "$log") - 1))
        for (( ; at < dies; at++)); do echo works; done
        [[ $at -lt ${#present[@]} ]] || return
        at=$((at + 1))
        if explained; then
            echo message
        else
            { echo "$mpi, $number ranks, $count integers of GPU memory:" && head -n 30 "$log"; } >&2
            echo FAILED
        fi
    done
}

# ways MPI COUNT COLUMN: of the calls present; of those that are not looked at, what the document says.
ways() {
    local call
    table | awk -F ' *[|] *' -v column="$3" '
        NR == 1 { for (i = 1; i <= NF; ++i) if ($i == column) at = i }
        NR > 2 { gsub(/`/, "", $2); print $2, ($at ~ /^(direct|staged|gpu|works)/ ? $at : "works") }' >"$work/documented"
    for call in "${present[@]}"; do
        if [[ -z $written ]] && ((RANDOM % ${#present[@]} >= sample)); then
            sed -n "s/^$call //p" "$work/documented" | grep . || echo "not documented"
        else
            way "$1" "$call" "$2"
        fi
    done
}

# in_threads MPI NUMBER COUNTxTHREADS WHAT CALL...
in_threads() {
    MPIR_CVAR_POLLS_BEFORE_YIELD=1 OMPI_MCA_mpi_yield_when_idle=1 try_calls "threads: $3 integers of host or GPU memory, $4" \
        "$1" "$2" "$seed" "$3" "${@:5}"
}

# The document's table, without what it says of four ranks.
table_of_two() { table | sed 's/ (4 ranks: [^|]*)//g'; }

[[ ${1-} != --write ]] || export GDR_TEST_EXTENT=all
written=$([[ ${1-} != --write ]] || echo yes)
sample=25 # of each column
seed=${CALLS_TEST_SEED-$RANDOM}
note "CALLS_TEST_SEED=$seed"
RANDOM=$seed
mapfile -t all < <("$top_builddir/test/mpi/mpi_calls.${mpis[0]}" --list)
header='| call |' rule='|---|'
printf '| `%s` |\n' "${all[@]}" >"$work/table"
for mpi in "${mpis[@]}"; do
    "$top_builddir/test/mpi/mpi_calls.$mpi" --lacking >"$work/lacking"
    mapfile -t present < <(printf '%s\n' "${all[@]}" | grep -vxFf "$work/lacking")
    for count in 16 100000; do
        column="$mpi, $([[ $count = 16 ]] && echo 64 B || echo 400 kB)"
        header+=" $column |" rule+='---|'
        ways "$mpi" "$count" "$column" >"$work/ways"
        for number in $(numbers 2 4); do
            outcomes "$mpi" $number $count | paste -d '\t' "$work/ways" - |
                awk -F '\t' '{ print ($2 == "works" ? $1 : $2) }' >"$work/$number"
        done
        extended || cp "$work/2" "$work/4"
        paste -d '\t' <(printf '| `%s` |\n' "${present[@]}") "$work/2" "$work/4" | awk -F '\t' '
            NR == FNR { outcome[$1] = $2 == $3 ? $2 : $2 " (4 ranks: " $3 ")"; next }
            { match($0, /^[|] [^ ]+ [|]/); call = substr($0, 1, RLENGTH); print $0, (call in outcome ? outcome[call] : "-"), "|" }' \
            - "$work/table" >"$work/wider"
        mv "$work/wider" "$work/table"
    done
done
sed -i "1i $header\\n$rule" "$work/table"
cat "$work/table"
expect "calls on GPU memory work or die with the message" "" "$(grep FAILED "$work/table")"

for mpi in "${mpis[@]}"; do
    mapfile -t living < <(awk -F ' *[|] *' -v column="$mpi, 64 B" '
        NR == 1 { for (i = 1; i <= NF; ++i) if ($i == column) at = i }
        NR > 2 && $at !~ /message|FAILED|^-$/ && $(at + 1) !~ /message|FAILED/ { gsub(/`/, "", $2); print $2 }' "$work/table")
    for number in $(numbers 5 4 3 2 1); do
        # MPICH copies from and to the rank's own window with the CPU.
        [[ $number -gt 1 || $mpi != mpich ]] || mapfile -t living < <(printf '%s\n' "${living[@]}" | grep -vxE 'MPI_(Put|Get|Rput|Rget)(_c)?')
        for count in 16 20000; do
            try_calls "calls that work, on $count integers of host or GPU memory" "$mpi" $number $seed $count "${living[@]}"
        done
        # Of these a put to a window is one for each element.
        [[ $number -le 4 ]] || continue
        for count in 16 2400; do
            try_calls "all calls on $count integers with gaps, host" "$mpi" $number --gaps host $count
            for where in cuda "$seed"; do
                try_calls "calls that work, on $count integers with gaps, $([[ $where = cuda ]] && echo GPU || echo host or GPU) memory" "$mpi" $number --gaps "$where" $count "${living[@]}"
            done
        done
    done

    # Each on a communicator of its own. Without what the process has one of (room for Bsend), and MPI-IO: of that both MPIs stand still in
    # host memory, too. Then requests that are freed, of which each thread has some.
    mapfile -t threaded < <(printf '%s\n' "${living[@]}" | grep -vE '[Bb]send|Buffer_|File_')
    mapfile -t freed < <(yes MPI_Request_free | head -n 40)
    for number in $(numbers 2 3); do
        for count in 16x4 20000x4; do
            in_threads "$mpi" $number $count "calls that work" "${threaded[@]}"
        done
    done
    in_threads "$mpi" 2 16x4 "requests that are freed" "${freed[@]}"
done

if [[ -n $written ]]; then
    sed -i -e "/^<!-- table -->$/,/^<!-- end of the table -->$/{/^|/d}" \
        -e "/^<!-- table -->$/r $work/table" "$top_srcdir/docs/reference/mpi-calls-full.md"
elif [[ ${#mpis[@]} -eq 2 ]]; then # else: test/mpi/calls_test.sh --write
    check "the table is that of docs/reference/mpi-calls-full.md" diff <(if extended; then table; else table_of_two; fi) "$work/table"
fi
done_testing
