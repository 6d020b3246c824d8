#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# rdma-core's own tests, written against any device, on softhca: all that apply to a device with RC
# and UD must pass. softhca_pyverbs_skips lists the others with the reasons; a test that is skipped
# without being listed, or listed without being skipped, fails.
set -u

tests=
for directory in /usr/share/doc/rdma-core*/tests /usr/share/doc/packages/rdma-core*/tests; do
    [ ! -d "$directory" ] || tests=$directory
done
[ -n "$tests" ] || {
    echo "skipped: no rdma-core/tests under /usr/share/doc (package python3-pyverbs)"
    exit 77
}
python=
for candidate in python3 /usr/bin/python3; do
    [ -n "$python" ] || ! $candidate -c 'import pyverbs.device' 2>/dev/null || python=$candidate
done
[ -n "$python" ] || {
    echo "skipped: no python3 with pyverbs (package python3-pyverbs)"
    exit 77
}

# shellcheck source=test/environment.sh
. "${top_srcdir:?}/test/environment.sh"
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
cp -r "$tests" "$work/tests" && find "$work/tests" -name '*.gz' -exec gunzip {} + || exit 99

failed=0
for layer in infiniband ethernet; do
    SOFTHCA_FABRIC=pyverbs_$$ SOFTHCA_LINK_LAYER=$layer \
        LD_PRELOAD=$runtime$top_builddir/src/emu/softhca/.libs/libsofthca.so \
        timeout 120 "$python" "$top_srcdir/test/emu/softhca_pyverbs.py" "$work/tests" \
        "$top_srcdir/test/emu/softhca_pyverbs_skips" $layer || failed=1
done
exit $failed
