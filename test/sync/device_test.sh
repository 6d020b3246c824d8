#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# ugdr_device.cuh, ugdr_initiate.cuh, ugdr_transfer.cuh and mpix_device.cuh are compiled by clang, nvcc and NVRTC, those of them that are there, and their PTX has what
# programs look for.
set -u
# shellcheck source=test/lib.sh
. "$top_srcdir/test/lib.sh"

source=$top_srcdir/src/sync/ugdr_device.cu
names=$top_srcdir/test/sync/names.cu
partitions=$top_srcdir/test/sync/mpix_kernels.cu
compiled=0

compiles() {
    name=$1
    shift
    "$@" >"$work/log" 2>&1
    status=$?
    case $status in
    0)
        ok "$name"
        compiled=$((compiled + 1))
        ;;
    77) skip_case "$name" "not there" ;;
    *)
        not_ok "$name" "$work/log"
        note "status $status"
        ;;
    esac
}

ptx=$top_builddir/src/sync/ugdr_device.ptx
if [ -e "$ptx" ]; then
    # As kernel_functions.hpp has it.
    for line in '.visible .entry ugdr_trigger(' '.visible .entry ugdr_wait(' '.visible .func ugdr_function_arrive(' \
        'ugdr_trigger_param_0[24]' 'ugdr_wait_param_0[24]' 'fence.acq_rel.sys' 'st.relaxed.sys.u32' 'ld.acquire.sys.u64' \
        'ugdr_function_put(' 'ugdr_function_quiet(' 'ugdr_function_wait_arrived(' 'st.relaxed.sys.v2.u64' 'fence.acq_rel.gpu'; do
        check "ugdr_device.ptx: $line" grep -qF "$line" "$ptx"
    done
    compiled=$((compiled + 1))
    # The other half of a compilation, the host's, sees the same header.
    for half in host device; do
        for file in "$source" "$partitions" "$names"; do
            compiles "clang, $half, ${file##*/}" "${KERNEL_CLANG:-clang}" -x cuda --cuda-$half-only \
                --cuda-path=/nonexistent -nocudainc -nocudalib --cuda-gpu-arch=sm_70 -std=c++17 -Wall -Werror \
                -fsyntax-only -I"$top_srcdir" -I"$top_srcdir/src" -I"$top_srcdir/src/sync" "$file"
        done
    done
fi
PATH=$PATH:/usr/local/cuda/bin
if command -v nvcc >/dev/null; then
    for file in "$source" "$partitions" "$names"; do
        compiles "nvcc, ${file##*/}" nvcc -std=c++17 -Werror all-warnings -I"$top_srcdir" -I"$top_srcdir/src" -I"$top_srcdir/src/sync" -c -o "$work/object" "$file"
    done
fi
LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/cuda/lib64
export LD_LIBRARY_PATH
for file in "$source" "$partitions"; do
    compiles "NVRTC, ${file##*/}" "$top_builddir/test/sync/sync_nvrtc" "$file" "$top_srcdir/src/sync"
done
compiles "C, host" "${CC:-cc}" -std=c99 -fsyntax-only -Wall -Werror -x c "$top_srcdir/src/sync/ucx-gdr/ugdr_types.h"
# shellcheck disable=SC2086 # flags
compiles "C, the proposed names" "${CC:-cc}" -std=gnu99 -fsyntax-only -Wall -Wextra -Werror -I"$top_srcdir/src/sync" \
    ${UCX_CFLAGS:-} -x c "$top_srcdir/src/sync/ucx-gdr/ucp_condition.h"
[ $compiled -gt 1 ] || skip_case "another compiler than the host's" "there is none"
done_testing
