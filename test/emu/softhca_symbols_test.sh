#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# libibverbs' own verbs find no kernel behind softhca's objects and crash: softhca takes the place of
# every one that is given an object, and of those that name what they report: gdr runs on it where there is no
# libibverbs. And it needs none of them, as it is loaded first. No emulated device
# offers others what the C++ library's templates left in it, nor that library where it is linked statically.
set -u
# shellcheck source=test/lib.sh
. "${top_srcdir:?}/test/lib.sh"

softhca=$top_builddir/src/emu/softhca/.libs/libsofthca.so
libibverbs=$(${CXX:-c++} -print-file-name=libibverbs.so)
[ -e "$libibverbs" ] || skip_all "${CXX:-c++} finds no libibverbs.so"

# Those for drivers (ibv_cmd_*, ibv_copy_*, ibv_register_driver), those of numbers alone,
# and those of objects that softhca makes none of (DMA handles, completion counters, dmabuf heaps).
others='^ibv_cmd_|^ibv_copy_|^ibv_register_driver$|^ibv_rate_to_|^ibv_dealloc_dmah$'
others="$others|^ibv_dm_export_|^ibv_.*_comp_cntr$|^ibv_dmabuf_heap_"
nm -D --defined-only "$libibverbs" | awk '$2 == "T" { sub("@.*", "", $3); print $3 }' |
    grep -E '^_?ibv_' | grep -vE "$others" | sort -u >"$work/verbs"
nm -D --defined-only "$softhca" | awk '{ print $3 }' | sort -u >"$work/defined"
nm -D --undefined-only "$softhca" | awk '{ sub("@.*", "", $2); print $2 }' |
    grep -E '^_?ibv_|^verbs_' >"$work/needed"
check "libibverbs has its verbs" [ "$(wc -l <"$work/verbs")" -gt 50 ]
comm -23 "$work/verbs" "$work/defined" >"$work/missing"
expect "every verb is overridden" "" "$(cat "$work/missing")"
expect "no verb is needed" "" "$(cat "$work/needed")"
# What a C++ library offers, and what unwinds its stack.
runtime='^(_Z|__cxa|__gxx|__once|_Unwind)'
for library in "$softhca" "$top_builddir/src/emu/softmlx5/.libs/libsoftmlx5.so" "$top_builddir/src/emu/softcuda/.libs/libcuda.so.1"; do
    [ ! -e "$library" ] ||
        expect "${library##*/} offers no symbols of C++" "" "$(nm -D --defined-only "$library" | awk '{ print $3 }' | grep -E "$runtime")"
done

cat >"$work/once.cpp" <<'END'
#include <mutex>
extern "C" __attribute__((visibility("default"))) void once()
{
    static std::once_flag flag;
    std::call_once(flag, [] { throw 1; });
}
END
# offered FLAG...: what a library offers that has the C++ library in it.
offered() {
    # shellcheck disable=SC2086 # two words
    ${CXX:-c++} -shared -fPIC -fvisibility=hidden -static-libstdc++ -static-libgcc -o "$work/libonce.so" "$work/once.cpp" "$@" \
        >"$work/linked" 2>&1 && nm -D --defined-only "$work/libonce.so" | awk '{ print $3 }'
}
if offered | grep -qE "$runtime"; then
    # shellcheck disable=SC2086 # words
    expect "nor with a static C++ library" once "$(offered ${GDR_LDFLAGS:-} -Wl,--version-script="$top_srcdir/src/emu/exports.map")"
else
    skip_case "with a static C++ library" "${CXX:-c++} has none, or hides it: $(head -n 1 "$work/linked")"
fi
done_testing
