#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# sync_test and sync_deaths on the machine's GPUs, with the emulated HCA: kernels as clang and, where it is there, as
# nvcc has made them, and the CUDA runtime. SYNC_TESTS: which of sync_test's tests (a filter of GoogleTest's).
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT

# The choice is ucx-gdr's: where it takes the emulated GPUs it says why.
LD_LIBRARY_PATH=${LD_LIBRARY_PATH#"$softcuda"}
LD_LIBRARY_PATH=${LD_LIBRARY_PATH#:}
"$top_builddir/src/tools/ucx-gdr" env --emulate-hca >"$work/settings" 2>"$work/cause" || exit 99
if grep -q "$softcuda" "$work/settings"; then
    echo "skipped: $(sed 's/^ucx-gdr: //' "$work/cause")"
    exit 77
fi

# Programs as they are linked: libtool's scripts beside them would take the emulated driver, and their run path an
# installed one.
programs=$top_builddir/test/sync/.libs
driver=$(echo "$LD_LIBRARY_PATH" | tr : '\n' | sed 's|$|/libcuda.so.1|' | xargs ls 2>/dev/null | head -n 1)
[ -n "$driver" ] || driver=$(ldconfig -p | sed -n 's/^.*libcuda\.so\.1 .*=> //p' | head -n 1)
mkdir "$work/driver" && ln -s "$driver" "$work/driver/libcuda.so.1" || exit 99
PATH=$PATH:/usr/local/cuda/bin
runtimes=/usr/local/cuda/lib64
export LD_LIBRARY_PATH="$work/driver:$top_builddir/src/sync/.libs:$runtimes${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export CUDA_MODULE_LOADING=EAGER # not while streams wait
export SYNC_CUDART="${CUDART_SONAME:-}"

# each FILTER: these of sync_test's tests, each in a process of its own, which shares no hardware queues and no default
# stream with the others.
each() {
    timeout 60 env LD_PRELOAD="$softhca:$module" "$programs/sync_test" --gtest_list_tests \
        --gtest_filter="${SYNC_TESTS:-$1}" >"$work/list" || failed=1
    awk '/^[^ ]/ { suite = $1 } /^ / { print suite $1 }' "$work/list" | grep -v DISABLED_ >"$work/tests"
    [ -s "$work/tests" ] || { echo "FAILED: no tests"; failed=1; }
    while read -r name; do
        run sync_test --gtest_brief=1 --gtest_filter="$name" </dev/null
    done <"$work/tests"
}

# kernels COMPILER FILTER: with what it has made of them.
kernels() {
    echo "kernels: $1"
    export SYNC_KERNELS="$work/$1"
    each "$2"
    unset SYNC_KERNELS
}

mkdir "$work/clang" "$work/nvcc"
if [ -e "$top_builddir/test/sync/partitions.ptx" ]; then
    cp "$top_builddir/test/sync/partitions.ptx" "$top_builddir/src/sync/ugdr_device.ptx" "$work/clang" || exit 99
    kernels clang '*'
else
    echo "not run with PTX: configured without clang"
    each '*'
fi
if command -v nvcc >/dev/null; then
    for source in "$top_srcdir/src/sync/ugdr_device.cu" "$top_srcdir/test/sync/partitions.cu"; do
        nvcc -std=c++17 -arch=native -fatbin -I"$top_srcdir/src" -I"$top_srcdir/src/sync" \
            -o "$work/nvcc/$(basename "$source" .cu).fatbin" "$source" || exit 99
    done
    kernels nvcc 'Kernels.*'
else
    echo "not run with nvcc's kernels: there is no nvcc"
fi

export UCX_GDR_RC_TIMEOUT=60ms UCX_GDR_RC_RETRY_COUNT=6 UCX_KEEPALIVE_INTERVAL=200ms # as in deaths_test.sh
run sync_deaths "${SYNC_DEATHS_ROUNDS:-2}"
exit $failed
