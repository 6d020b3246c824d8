# shellcheck shell=sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# How a test script reports: in TAP, which Automake's driver reads (docs/developers/testing.md). To be sourced before
# anything else. The script ends with done_testing or skip_all. One that ends earlier has no plan, and fails.
#
# The name of a case is the same in each run. What differs, such as seeds, times and counts, goes to note.

exec 9>&1 # results must not go to files to which a script redirects its output

# The script's directory, removed at the end, after the commands of at_exit.
work=$(mktemp -d) || exit 99
tap_results=$work/.results # a line for each case, also from subshells
: >"$tap_results"
tap_section='' tap_cleaning=''
trap 'eval "$tap_cleaning"; rm -rf "$work"' EXIT

# at_exit COMMANDS: runs them at the end of the script.
at_exit() { tap_cleaning="$1; $tap_cleaning"; }

# Whether to run everything, or only what a landing needs (contrib/check).
extended() { [ "${GDR_TEST_EXTENT-}" = all ]; }

# section NAME: a prefix for the names of the following cases.
section() { tap_section=${1:+"$1: "}; }

# result "ok"|"not ok" NAME
result() {
    echo "$1" >>"$tap_results"
    echo "$1 $(($(wc -l <"$tap_results"))) - $tap_section$2" >&9
}

# "#" in a name would begin a directive.
plain() { printf %s "$1" | tr '#\n' '  '; }

# ok NAME, not_ok NAME [FILE]...: one case; not_ok shows the beginning of the files.
ok() { result ok "$(plain "$1")"; }
not_ok() {
    result "not ok" "$(plain "$1")"
    shift
    [ $# = 0 ] || head -n 60 "$@" | cut -c 1-300 | sed 's/^/#     /' >&9
}

# A case that this machine cannot run.
skip_case() { result ok "$(plain "$1") # SKIP $(plain "$2")"; } # NAME REASON

# note TEXT...: writes to the log for its readers.
note() { printf '%s\n' "$*" | sed 's/^/# /' >&9; }

# check NAME COMMAND [ARGUMENT]...: a case that passes if the command succeeds.
check() {
    tap_name=$1
    shift
    if "$@"; then
        ok "$tap_name"
    else
        tap_status=$?
        not_ok "$tap_name"
        note "status $tap_status"
    fi
}

# fails COMMAND [ARGUMENT]...: succeeds if the command fails, for check.
fails() { ! "$@"; }

expect() { # NAME EXPECTED ACTUAL
    if [ "$2" = "$3" ]; then
        ok "$1"
    else
        not_ok "$1"
        printf '%s\n' "$2" | sed 's/^/#     expected: /' >&9
        printf '%s\n' "$3" | sed 's/^/#     found:    /' >&9
    fi
}

# subtests FILE: adopts the cases that a program wrote there in TAP. Fails if the program had no plan, or did not keep
# to it.
subtests() {
    tap_seen=0 tap_plan=none
    while IFS= read -r tap_line; do
        case $tap_line in
        "ok "* | "not ok "*)
            result "${tap_line%% [0-9]*}" "${tap_line#* - }"
            tap_seen=$((tap_seen + 1))
            ;;
        1..*) tap_plan=${tap_line#1..} ;;
        *) printf '    %s\n' "$tap_line" ;;
        esac
    done <"$1"
    [ "$tap_plan" = "$tap_seen" ]
}

all_passed() { ! grep -q not "$tap_results"; }

done_testing() {
    [ -s "$tap_results" ] || not_ok "there are cases"
    echo "1..$(($(wc -l <"$tap_results")))" >&9
    all_passed
    exit
}

# skip_all REASON: skips everything that has not been tried yet.
skip_all() {
    if [ -s "$tap_results" ]; then
        skip_case "the rest" "$*"
        done_testing
    fi
    echo "1..0 # SKIP $*" >&9
    exit 77
}
