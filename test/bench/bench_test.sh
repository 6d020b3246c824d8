#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# contrib/bench and contrib/bench-sizes bring out their rows; what is in them is not looked at.
set -u

# shellcheck source=test/environment.sh
. "$top_srcdir/test/environment.sh"
[ "${GDR_SANITIZERS:-none}" = none ] || exit 77
for program in python3 ucx_perftest taskset; do
    command -v "$program" >/dev/null || {
        echo "$program is missing"
        exit 77
    }
done
[ "$(nproc)" -gt 1 ] || {
    echo "two processors are needed"
    exit 77
}

build=$(cd "$top_builddir" && pwd)
failed=0

# rows COUNT PATTERN PROGRAM [ARGUMENT]...: so many lines of what it prints match. Its status tells of violations, too.
rows() {
    expected=$1 pattern=$2
    shift 2
    output=$("$@" --build "$build" --loaded --rounds 1 2>&1)
    [ "$(echo "$output" | grep -c "$pattern")" = "$expected" ] && return
    echo "$output"
    echo "FAILED: $*"
    failed=1
}

rows 2 '^uct .* gdr [0-9.]* .* rc_verbs [0-9.]* .*(.*)$' \
    "$top_srcdir/contrib/bench" --no-counts --with gdr,rc_verbs --only 'uct (am_lat|put_bw) short 8$'
rows 3 '^ *[124] .*([0-9. to]*)' "$top_srcdir/contrib/bench-sizes" --only '^put host$' --largest 4
exit $failed
