# shellcheck shell=sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# rdma-core's own tests: of the distribution's package, or of a source tree of rdma-core 64 that was built in its
# directory "build" (GDR_TEST_RDMA_CORE), with its libraries. To be sourced after test/lib.sh.

tests='' python=''
if [ -n "${GDR_TEST_RDMA_CORE-}" ]; then
    built=$GDR_TEST_RDMA_CORE/build
    tests=$GDR_TEST_RDMA_CORE/tests
    python=$(sed -n 's/^PYTHON_EXECUTABLE:[A-Z]*=//p' "$built/CMakeCache.txt") || exit 99
    export LD_LIBRARY_PATH="$built/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" PYTHONPATH="$built/python"
fi
[ -n "$tests" ] || for directory in /usr/share/doc/rdma-core*/tests /usr/share/doc/packages/rdma-core*/tests; do
    [ ! -d "$directory" ] || tests=$directory
done
[ -n "$tests" ] || skip_all "no rdma-core/tests under /usr/share/doc (package python3-pyverbs)"
for candidate in python3 /usr/bin/python3; do
    [ -n "$python" ] || ! $candidate -c 'import pyverbs.device' 2>/dev/null || python=$candidate
done
[ -n "$python" ] || skip_all "no python3 with pyverbs (package python3-pyverbs)"
cp -r "$tests" "$work/tests" && find "$work/tests" -name '*.gz' -exec gunzip {} + || exit 99
# Newer ones ask rdma for the network interface behind the HCA. It would ask the kernel, which knows no emulated HCA.
mkdir "$work/bin" && printf '#!/bin/sh\necho "[]"\n' >"$work/bin/rdma" && chmod +x "$work/bin/rdma" || exit 99

# pyverbs_suite PRELOAD SKIPS LAYER SECONDS: runs them, each a case; the files SKIPS list those that are skipped, with the reasons.
# Sets "status", which has more than a number in it if not all cases are there.
pyverbs_suite() {
    # shellcheck disable=SC2086 # words
    env LD_PRELOAD="$1" PATH="$work/bin:$PATH" timeout "$4" \
        "$python" "$top_srcdir/test/emu/pyverbs_suite.py" "$work/tests" "$3" $2 >"$work/said" 2>&1
    status=$?
    subtests "$work/said" || status="$status, but not all of the cases"
}
