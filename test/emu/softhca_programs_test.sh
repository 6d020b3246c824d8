#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Every stock program on softhca once.
set -u
# shellcheck source=test/emu/softhca_programs.sh
. "${top_srcdir:?}/test/emu/softhca_programs.sh"

run_programs
done_testing
