#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# rdma-core's own tests, written against any device, on softhca: all that apply to a device with RC
# and UD must pass. softhca_pyverbs_skips lists the others with the reasons; a test that is skipped
# without being listed, or listed without being skipped, fails.
set -u
# shellcheck source=test/lib.sh
. "${top_srcdir:?}/test/lib.sh"

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

# shellcheck source=test/environment.sh
. "${top_srcdir:?}/test/environment.sh"
cp -r "$tests" "$work/tests" && find "$work/tests" -name '*.gz' -exec gunzip {} + || exit 99

for layer in infiniband ethernet; do
    SOFTHCA_FABRIC=pyverbs_$$ SOFTHCA_LINK_LAYER=$layer \
        LD_PRELOAD=$runtime$top_builddir/src/emu/softhca/.libs/libsofthca.so \
        timeout 120 "$python" "$top_srcdir/test/emu/softhca_pyverbs.py" "$work/tests" \
        "$top_srcdir/test/emu/softhca_pyverbs_skips" $layer >"$work/said" 2>&1
    status=$?
    subtests "$work/said" || status="$status, but not all of the cases"
    expect "$layer: status" 0 "$status"
done
done_testing
