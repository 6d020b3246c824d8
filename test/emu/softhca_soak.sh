#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Every stock program on softhca many times: what goes wrong once in a hundred runs shows here. Not
# part of "make check".
#
#   top_srcdir=SOURCES top_builddir=BUILD test/emu/softhca_soak.sh [ROUNDS]
#
# Fifty rounds by default. Stops at the first round with a failure.
set -u
# shellcheck source=test/emu/softhca_programs.sh
. "${top_srcdir:?}/test/emu/softhca_programs.sh"
: "${work:?}"

rounds=${1:-50}
passed=0
while [ $passed -lt "$rounds" ]; do
    section "round $((passed + 1)) of $rounds"
    run_programs
    all_passed || done_testing
    passed=$((passed + 1))
done
done_testing
