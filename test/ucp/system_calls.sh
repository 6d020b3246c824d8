# shellcheck shell=sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# System calls of a program in a short and a long run, whose numbers must agree. Sourced after environment.sh; ends the
# test where they cannot be counted.

case ${GDR_SANITIZERS:-none} in
none) ;;
*) skip_all "system calls are not counted under a sanitizer" ;;
esac
strace -o /dev/null true 2>/dev/null || skip_all "system calls are not counted: no strace, or it may not trace"
traces=$work/traces
mkdir "$traces"

# run_traced PROGRAM OPERATIONS [ARGUMENT]: so many of each kind.
run_traced() {
    rm -f "$traces"/*
    strace --seccomp-bpf -ff -e "trace=$filter" -o "$traces/of" env LD_PRELOAD="$emulated_hca:$module" \
        timeout 300 "$programs/$1" "$2" ${3+"$3"} >"$traces/said"
    status=$?
    [ $status = 0 ] && return
    not_ok "$*, traced" "$traces/said"
    note "status $status"
    done_testing
}

# The system calls of the latest run that $filter lets pass (strace's -e trace): of the thread that the program names in
# a line "thread NUMBER: ...", or of all but the emulated HCA's.
system_calls() {
    thread=$(sed -n 's/^thread \([0-9]*\):.*/\1/p' "$traces/said")
    find "$traces" -name "of.${thread:-*}" ! -exec grep -q '^prctl(PR_SET_NAME, "softhca"' {} \; -exec cat {} + |
        grep -vE '^(\+\+\+|---)'
}

# compare PROGRAM SHORT LONG [ARGUMENT]: runs with so many operations; at most $tolerance more calls in the long one.
compare() {
    run_traced "$1" "$2" ${4+"$4"}
    short=$(system_calls | wc -l)
    run_traced "$1" "$3" ${4+"$4"}
    long=$(system_calls | wc -l)
    system_calls | sed 's/(.*//' | sort | uniq -c | sort -n | tail >"$work/system_calls"
    if [ "$short" = 0 ] || [ $((long - short)) -gt "$tolerance" ]; then
        not_ok "$1${4+ $4}: operations make no system calls" "$work/system_calls"
    else
        ok "$1${4+ $4}: operations make no system calls"
    fi
    note "$short with $2 operations of each kind, $long with $3"
}
