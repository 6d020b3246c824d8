#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# gdr's own tests under libmlx5: registrations, the transport by UCT's calls, and transfers by UCP.
set -u

# shellcheck source=test/emu/softmlx5.sh
. "${top_srcdir:?}/test/emu/softmlx5.sh"

export GDR_TEST_HCA=mlx5
unset SOFTHCA_FABRIC # each has its own

# passes TEST [ARGUMENT]...: it does, or is skipped as a whole.
passes() {
    name="${1##*/}${2:+ $2}"
    timeout 300 "$@" >"$work/passes" 2>&1
    case $? in
    0 | 77) ok "$name" ;;
    *)
        grep -A8 -E '^(not ok|.*FAILED)' "$work/passes" | head -n 40 >"$work/failed"
        not_ok "$name" "$work/failed"
        ;;
    esac
}

export LD_LIBRARY_PATH="$top_builddir/src/emu/softcuda/.libs"
passes "$top_builddir/test/unit/mem_test"
for cases in 'Atomic.*' 'Budget*' 'Completions.Few*:Completions.Have*' 'Connecting.Ports*:FirstUse*' 'Contention*' 'Fence*' \
    'Order.*:-*.NoWakeup*' 'Memory*:Rights*:Relaxed*:Provider.Queues*' '*Data*'; do
    passes "$top_builddir/test/uct/rc_test" --gtest_filter="$cases"
done
unset LD_LIBRARY_PATH
for name in order rights relaxed lookup transfer_cases; do
    passes "$top_srcdir/test/ucp/${name}_test.sh"
done
done_testing
