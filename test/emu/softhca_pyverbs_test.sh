#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# rdma-core's own tests, written against any device, on softhca: all that apply to a device with RC
# and UD must pass. softhca_pyverbs_skips lists the others with the reasons; a test that is skipped
# without being listed, or listed without being skipped, fails.
set -u
# shellcheck source=test/lib.sh
. "${top_srcdir:?}/test/lib.sh"
# shellcheck source=test/environment.sh
. "${top_srcdir:?}/test/environment.sh"
# shellcheck source=test/emu/pyverbs.sh
. "$top_srcdir/test/emu/pyverbs.sh"

export SOFTHCA_FABRIC=pyverbs_$$
for layer in infiniband ethernet; do
    export SOFTHCA_LINK_LAYER=$layer
    pyverbs_suite "$runtime$top_builddir/src/emu/softhca/.libs/libsofthca.so" \
        "$top_srcdir/test/emu/softhca_pyverbs_skips" $layer 120
    expect "$layer: status" 0 "$status"
done
done_testing
