#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# contrib/bench, bench-sizes and bench-sync bring out their rows; what is in them is not looked at.
set -u

# shellcheck source=test/lib.sh
. "$top_srcdir/test/lib.sh"
# shellcheck source=test/environment.sh
. "$top_srcdir/test/environment.sh"
[ "${GDR_SANITIZERS:-none}" = none ] || skip_all "times of a sanitizer's build are not looked at"
for program in python3 ucx_perftest taskset; do
    command -v "$program" >/dev/null || skip_all "$program is missing"
done
[ "$(nproc)" -gt 1 ] || skip_all "two processors are needed"

build=$(cd "$top_builddir" && pwd)

# rows COUNT PATTERN PROGRAM [ARGUMENT]...: so many lines of what it prints match. Its status tells of violations, too.
rows() {
    expected=$1 pattern=$2 name=${3##*/}
    shift 2
    output=$("$@" --build "$build" 2>&1)
    expect "$name: $expected rows" "$expected" "$(echo "$output" | grep -c "$pattern")"
    echo "$output" | sed 's/^/    /'
}

rows 2 '^uct .* gdr [0-9.]* .* rc_verbs [0-9.]* .*(.*)$' \
    "$top_srcdir/contrib/bench" --loaded --rounds 1 --no-counts --with gdr,rc_verbs --only 'uct (am_lat|put_bw) short 8$'
# The second needs a ConnectX.
rows 2 '^uct .* gdr [0-9.]* .* rc_verbs [0-9.]* .*(.*)$\|FAILED: uct am_lat short 8, dc_mlx5: ' "$top_srcdir/contrib/bench" \
    --loaded --rounds 1 --no-counts --emulate-hca softhca --with gdr,dc_mlx5,rc_verbs --only 'uct am_lat short 8$'
rows 3 '^ *[124] .*([0-9. to]*)' "$top_srcdir/contrib/bench-sizes" --loaded --rounds 1 --only '^put host$' --largest 4
if [ -e "$build/test/bench/initiated_bench" ]; then
    rows 9 '^\(puts\|quiet\|signal\|overlap\) .*\([0-9]\|hidden\)$\|M/s$' "$top_srcdir/contrib/bench-sync" --emulate --rounds 10 --largest 8
else
    skip_case "rows of operations that kernels initiate" "configured without libucx-gdr"
fi
if ! command -v valgrind >/dev/null; then
    skip_case "rows of instructions" "no valgrind"
elif [ ! -e "$build/src/emu/softmlx5/libsoftmlx5.la" ]; then
    skip_case "rows of instructions" "softmlx5 is not built"
else
    rows 2 '^| uc[tp] .* | .*[0-9] / .*[0-9] = [0-9.]* |' \
        "$top_srcdir/contrib/bench" --no-times --emulate-hca mlx5 --with gdr,rc_mlx5 --only '(uct put_bw short|ucp tag_bw) 8$'
fi
done_testing
