#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Every stock program on softhca many times: what goes wrong once in a hundred runs shows here. Not
# part of "make check".
#
#   top_srcdir=SOURCES top_builddir=BUILD test/emu/softhca_soak.sh [ROUNDS]
#
# Fifty rounds by default. Stops at the first round with a failure, and says how many passed.
set -u
# shellcheck source=test/emu/softhca_programs.sh
. "${top_srcdir:?}/test/emu/softhca_programs.sh"
: "${work:?}" "${failed:?}"

rounds=${1:-50}
passed=0
while [ $passed -lt "$rounds" ]; do
    run_programs >"$work/round"
    if [ $failed != 0 ]; then
        grep -v '^ok: ' "$work/round"
        echo "FAILED: round $((passed + 1)), after $passed that passed"
        exit 1
    fi
    passed=$((passed + 1))
    echo "round $passed of $rounds: $(grep -c '^ok: ' "$work/round") runs passed"
done
