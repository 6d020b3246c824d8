#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Small messages into GPU memory through gdrcopy's library: the emulated one, one that cannot map
# anything, none, and others of its name.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

gdrcopy=$top_builddir/src/emu/softgdrcopy/.libs
[ -e "$gdrcopy/libgdrapi.so.2" ] || {
    echo "$gdrcopy/libgdrapi.so.2 is missing: run make first"
    exit 99
}
plain_path=$LD_LIBRARY_PATH
export SOFTGDRCOPY_STATS=1 UCX_LOG_LEVEL=info

# The sum of a count over the processes.
count() {
    sed -n "s/^softgdrcopy .*$1=\([0-9]*\).*/\1/p" "$work/out" | awk '{ sum += $1 } END { print sum + 0 }'
}

# says TEXT: once in each process of a run.
says() {
    grep "gdr: .*gdrcopy" "$work/out" >"$work/said"
    if [ "$(grep -c "gdr: .*$1" "$work/out")" = 2 ]; then
        ok "each of two processes says: $1"
    else
        not_ok "each of two processes says: $1" "$work/said"
    fi
}

# Messages of the sizes that eager protocols and their fragments have, from host memory and from the
# GPU; what is said of it is in $work/out.
run_transfer() {
    run ucp_transfer --ops tag,tag_unexpected,am,stream --kinds host:cuda,cuda:cuda,cuda:host \
        --sizes 1,7,8,64,255,1000,4096,20000 >"$work/out" 2>&1
    grep -E 'FAILED|^[0-9]+ cases' "$work/out"
}

for proto in n y; do
    export UCX_PROTO_ENABLE=$proto UCX_RNDV_THRESH=inf
    section "mapped, protocols v2: $proto"
    export LD_LIBRARY_PATH="$gdrcopy:$plain_path"
    run_transfer
    says "gdrcopy used"
    check "something is written through gdrcopy" [ "$(count writes)" -gt 0 ]
    check "something is mapped" [ "$(count pins)" -gt 0 ]

    section "pins that fail, protocols v2: $proto"
    SOFTGDRCOPY_MOST_PINS=0 run_transfer
    says "is not mapped by gdrcopy.*gdr_pin_buffer: Cannot allocate memory"
    expect "what is not mapped is not written" 0 "$(count writes)"

    section "switched off, protocols v2: $proto"
    UCX_GDR_COPY_GDRCOPY=n run_transfer
    says "gdrcopy not used: UCX_GDR_COPY_GDRCOPY is n"
    expect "no memory is mapped" 0 "$(count attempts)"

    section "without the library, protocols v2: $proto"
    export LD_LIBRARY_PATH="$plain_path"
    run_transfer
    says "gdrcopy not used: libgdrapi.so.2: cannot open shared object file"
done

# library SOURCE: a libgdrapi.so.2 of it in front.
library() {
    mkdir -p "$work/other"
    echo "$1" | $CXX -x c++ -shared -fPIC -Wl,-soname,libgdrapi.so.2 -o "$work/other/libgdrapi.so.2" - ||
        exit 99
    export LD_LIBRARY_PATH="$work/other:$plain_path"
}
functions='extern "C" { int gdr_pin_buffer() { return 22; } int gdr_unpin_buffer() { return 22; }
int gdr_map() { return 22; } int gdr_unmap() { return 22; } int gdr_copy_to_mapping() { return 22; }
int gdr_copy_from_mapping() { return 22; } int gdr_get_info() { return 22; }'
if [ "${GDR_SANITIZERS:-none}" = none ]; then
    section "a library of no version"
    library 'extern "C" void* gdr_open() { return nullptr; }'
    run_transfer
    says "gdrcopy not used: libgdrapi.so.2 has no gdr_pin_buffer: it is too old, or none of gdrcopy"
    section "a library of another version"
    library "$functions void* gdr_open() { return (void*)1; }
        void gdr_runtime_get_version(int* major, int* minor) { *major = 3; *minor = 1; } }"
    run_transfer
    says "gdrcopy not used: libgdrapi.so.2 is of version 3.1, not 2"
    section "a library that finds no kernel module"
    library "$functions void* gdr_open() { return 0; }
        void gdr_runtime_get_version(int* major, int* minor) { *major = 2; *minor = 4; } }"
    run_transfer
    says "gdrcopy not used: libgdrapi.so.2 2.4 reaches no device memory"
    section "a library that maps nothing"
    library "$functions void* gdr_open() { return (void*)1; }
        void gdr_runtime_get_version(int* major, int* minor) { *major = 2; *minor = 4; } }"
    run_transfer
    says "gdrcopy used"
    says "is not mapped by gdrcopy.*gdr_pin_buffer: Invalid argument"
fi
done_testing
