#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# rdma-core's own tests over libmlx5 on softmlx5: softmlx5_pyverbs_skips lists those that it does not pass, as in
# softhca_pyverbs_test.sh.
set -u
# shellcheck source=test/emu/softmlx5.sh
. "${top_srcdir:?}/test/emu/softmlx5.sh"
: "${mlx5:?}"

tests=
for directory in /usr/share/doc/rdma-core*/tests /usr/share/doc/packages/rdma-core*/tests; do
    [ ! -d "$directory" ] || tests=$directory
done
[ -n "$tests" ] || skip_all "no rdma-core/tests under /usr/share/doc (package python3-pyverbs)"
python=
for candidate in python3 /usr/bin/python3; do
    [ -n "$python" ] || ! $candidate -c 'import pyverbs.device' 2>/dev/null || python=$candidate
done
[ -n "$python" ] || skip_all "no python3 with pyverbs (package python3-pyverbs)"
cp -r "$tests" "$work/tests" && find "$work/tests" -name '*.gz' -exec gunzip {} + || exit 99

env LD_PRELOAD="$mlx5" timeout 240 "$python" "$top_srcdir/test/emu/softhca_pyverbs.py" "$work/tests" \
    "$top_srcdir/test/emu/softmlx5_pyverbs_skips" infiniband >"$work/said" 2>&1
status=$?
subtests "$work/said" || status="$status, but not all of the cases"
expect "status" 0 "$status"
done_testing
