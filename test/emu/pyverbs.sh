# shellcheck shell=sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# rdma-core's own tests, of which the distribution's package has a copy. To be sourced after test/lib.sh.

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

# pyverbs_suite PRELOAD SKIPS LAYER SECONDS: runs them, each a case; SKIPS lists those that are skipped, with the reasons.
# Sets "status", which has more than a number in it if not all cases are there.
pyverbs_suite() {
    env LD_PRELOAD="$1" timeout "$4" "$python" "$top_srcdir/test/emu/pyverbs_suite.py" "$work/tests" "$2" "$3" >"$work/said" 2>&1
    status=$?
    subtests "$work/said" || status="$status, but not all of the cases"
}
