#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# rdma-core's own tests over libmlx5 on softmlx5: softmlx5_pyverbs_skips lists those that it does not pass, as in
# softhca_pyverbs_test.sh.
set -u
# shellcheck source=test/emu/softmlx5.sh
. "${top_srcdir:?}/test/emu/softmlx5.sh"
: "${mlx5:?}"
# shellcheck source=test/emu/pyverbs.sh
. "$top_srcdir/test/emu/pyverbs.sh"

skips=$top_srcdir/test/emu/softmlx5_pyverbs_skips
[ -z "${GDR_TEST_RDMA_CORE-}" ] || skips="$skips $top_srcdir/test/emu/softmlx5_pyverbs_newer_skips"
for layer in infiniband ethernet; do
    export SOFTHCA_LINK_LAYER=$layer
    pyverbs_suite "$mlx5" "$skips" $layer 240
    expect "$layer: status" 0 "$status"
done
done_testing
