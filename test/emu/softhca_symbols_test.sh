#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# libibverbs' own verbs find no kernel behind softhca's objects and crash: softhca takes the place of
# every one that is given an object, and of those that name what they report: gdr runs on it where there is no
# libibverbs. And it needs none of them, as it is loaded first. Neither it nor softcuda
# offers others what the C++ library's templates left in it.
set -u

softhca=$top_builddir/src/emu/softhca/.libs/libsofthca.so
libibverbs=$(${CXX:-c++} -print-file-name=libibverbs.so)
[ -e "$libibverbs" ] || {
    echo "skipped: ${CXX:-c++} finds no libibverbs.so"
    exit 77
}
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
failed=0

# Those for drivers (ibv_cmd_*, ibv_copy_*, ibv_register_driver), those of numbers alone,
# and those of objects that softhca makes none of (DMA handles, completion counters, buffers).
others='^ibv_cmd_|^ibv_copy_|^ibv_register_driver$|^ibv_rate_to_|^ibv_dealloc_dmah$'
others="$others|^ibv_dm_export_|^ibv_.*_comp_cntr$|^ibv_dmabuf_heap_|^ibv_(free|export)_buf"
nm -D --defined-only "$libibverbs" | awk '$2 == "T" { sub("@.*", "", $3); print $3 }' |
    grep -E '^_?ibv_' | grep -vE "$others" | sort -u >"$work/verbs"
nm -D --defined-only "$softhca" | awk '{ print $3 }' | sort -u >"$work/defined"
nm -D --undefined-only "$softhca" | awk '{ sub("@.*", "", $2); print $2 }' |
    grep -E '^_?ibv_|^verbs_' >"$work/needed"
[ "$(wc -l <"$work/verbs")" -gt 50 ] || {
    echo "FAILED: verbs: $libibverbs does not seem to be libibverbs"
    exit 1
}
comm -23 "$work/verbs" "$work/defined" >"$work/missing"
if [ -s "$work/missing" ]; then
    echo "FAILED: every verb is overridden, but for $(tr '\n' ' ' <"$work/missing")"
    failed=1
else
    echo "ok: every verb is overridden"
fi
if [ -s "$work/needed" ]; then
    echo "FAILED: no verb is needed, but for $(tr '\n' ' ' <"$work/needed")"
    failed=1
else
    echo "ok: no verb is needed"
fi
for library in "$softhca" "$top_builddir/src/emu/softcuda/.libs/libcuda.so.1"; do
    if [ "$(nm -D --defined-only "$library" | grep -c ' _Z')" != 0 ]; then
        echo "FAILED: ${library##*/} offers symbols of C++"
        failed=1
    else
        echo "ok: ${library##*/} offers no symbols of C++"
    fi
done
exit $failed
