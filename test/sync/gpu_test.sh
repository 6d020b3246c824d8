#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# sync_test and sync_deaths on the machine's GPUs, with the emulated HCA: kernels as clang and, where it is there, as
# nvcc has made them, and the CUDA runtime. SYNC_TESTS: which of sync_test's tests (a filter of GoogleTest's).
set -u

ucx_headers=${UCX_CFLAGS:-} # what begins with UCX_ does not stay
# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

# shellcheck source=test/gpu.sh
. "$top_srcdir/test/gpu.sh"

programs=$top_builddir/test/sync/.libs
PATH=$PATH:/usr/local/cuda/bin
runtimes=/usr/local/cuda/lib64
export LD_LIBRARY_PATH="$top_builddir/src/sync/.libs:$runtimes:$LD_LIBRARY_PATH"
export CUDA_MODULE_LOADING=EAGER # not while streams wait
export SYNC_CUDART="${CUDART_SONAME:-}"

# kernels COMPILER FILTER: with what it has made of them.
kernels() {
    section "kernels by $1"
    export SYNC_KERNELS="$work/$1"
    each sync_test "${SYNC_TESTS:-$2}"
    unset SYNC_KERNELS
    section ""
}

mkdir "$work/clang" "$work/nvcc"
if [ -e "$top_builddir/test/sync/partitions.ptx" ]; then
    cp "$top_builddir"/test/sync/*.ptx "$top_builddir/src/sync/ugdr_device.ptx" "$work/clang" || exit 99
    kernels clang '*'
else
    skip_case "kernels by clang" "configured without clang"
    each sync_test "${SYNC_TESTS:-*}"
fi
if command -v nvcc >/dev/null; then
    for source in "$top_srcdir/src/sync/ugdr_device.cu" "$top_srcdir"/test/sync/*.cu; do
        # shellcheck disable=SC2086 # arguments
        nvcc -std=c++17 -arch=native -fatbin -I"$top_srcdir" -I"$top_srcdir/src" -I"$top_srcdir/src/sync" $ucx_headers \
            -o "$work/nvcc/$(basename "$source" .cu).fatbin" "$source" || exit 99
    done
    kernels nvcc 'Kernels.*:Initiated.*:Mapped.*:Team.*:InitiatedByNames.*:*Prepared*'
else
    skip_case "kernels by nvcc" "there is no nvcc"
fi

export UCX_GDR_RC_TIMEOUT=60ms UCX_GDR_RC_RETRY_COUNT=6 UCX_KEEPALIVE_INTERVAL=200ms # as in deaths_test.sh
run sync_deaths "${SYNC_DEATHS_ROUNDS:-2}"

timeout -k 5 60 env LD_PRELOAD="${emulated_hca:+$emulated_hca:}$module" "$programs/sync_test" --gtest_brief=1 \
    --gtest_also_run_disabled_tests --gtest_filter='*.DISABLED_ExitWithoutDestroying' </dev/null
expect "ExitWithoutDestroying: status" 77 $?
done_testing
