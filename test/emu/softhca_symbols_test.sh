#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# libibverbs' own verbs find no kernel behind softhca's objects and crash: softhca takes the place of
# every one that is given an object, and of those that name what they report: gdr runs on it where there is no
# libibverbs. And it needs none of them, as it is loaded first. Neither it nor softcuda
# offers others what the C++ library's templates left in it.
set -u
# shellcheck source=test/lib.sh
. "${top_srcdir:?}/test/lib.sh"

softhca=$top_builddir/src/emu/softhca/.libs/libsofthca.so
libibverbs=$(${CXX:-c++} -print-file-name=libibverbs.so)
[ -e "$libibverbs" ] || skip_all "${CXX:-c++} finds no libibverbs.so"

# Those for drivers (ibv_cmd_*, ibv_copy_*, ibv_register_driver), those of numbers alone,
# and those of objects that softhca makes none of (DMA handles, completion counters, buffers).
others='^ibv_cmd_|^ibv_copy_|^ibv_register_driver$|^ibv_rate_to_|^ibv_dealloc_dmah$'
others="$others|^ibv_dm_export_|^ibv_.*_comp_cntr$|^ibv_dmabuf_heap_|^ibv_(free|export)_buf"
nm -D --defined-only "$libibverbs" | awk '$2 == "T" { sub("@.*", "", $3); print $3 }' |
    grep -E '^_?ibv_' | grep -vE "$others" | sort -u >"$work/verbs"
nm -D --defined-only "$softhca" | awk '{ print $3 }' | sort -u >"$work/defined"
nm -D --undefined-only "$softhca" | awk '{ sub("@.*", "", $2); print $2 }' |
    grep -E '^_?ibv_|^verbs_' >"$work/needed"
check "libibverbs has its verbs" [ "$(wc -l <"$work/verbs")" -gt 50 ]
comm -23 "$work/verbs" "$work/defined" >"$work/missing"
expect "every verb is overridden" "" "$(cat "$work/missing")"
expect "no verb is needed" "" "$(cat "$work/needed")"
for library in "$softhca" "$top_builddir/src/emu/softcuda/.libs/libcuda.so.1"; do
    expect "${library##*/} offers no symbols of C++" 0 "$(nm -D --defined-only "$library" | grep -c ' _Z')"
done
done_testing
