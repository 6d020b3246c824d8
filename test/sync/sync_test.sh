#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# libucx-gdr on stock UCX, the emulated HCA and emulated GPUs.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
programs=$top_builddir/test/sync
# The history tells which thread of an HCA it was, for the suppressions.
export TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}history_size=7:suppressions=$top_srcdir/test/sync/thread.supp"
case ${GDR_SANITIZERS:-none} in # see Makefile.am
*thread*)
    ! on_softmlx5 || skip_all "threads meet by queues of libmlx5 there, and the thread sanitizer does not see what those order"
    export UCX_MEM_MMAP_HOOK_MODE=none
    ;;
esac
export SYNC_CUDART="${CUDART_SONAME:+$top_builddir/src/emu/softcudart/$CUDART_SONAME}"

# says TEXT: it is in the output of the last program.
says() {
    check "it says: $1" grep -qF "$1" "$work/log"
}

# special NAME [VARIABLE=VALUE]...: one test with an environment of its own. Ends with status $expected.
expected=0
special() {
    name=$1
    shift
    timeout -k 5 300 env "$@" LD_PRELOAD="$runtime$emulated_hca:$module" "$programs/sync_test" --gtest_brief=1 \
        --gtest_also_run_disabled_tests --gtest_filter="*.DISABLED_$name" >"$work/log" 2>&1
    status=$?
    expect "$name${1:+, }$*: status" $expected $status
    sed 's/^/    /' "$work/log"
}

# driver_without FUNCTION...: prints the name of an emulated driver that lacks these, to be loaded first.
driver_without() {
    driver=$work/$1
    mkdir "$driver"
    cp "$softcuda/libcuda.so.1" "$driver"
    for function in "$@"; do
        sed -i "s/$function/_${function#?}/g" "$driver/libcuda.so.1"
    done
    echo "$driver/libcuda.so.1"
}

# The library needs neither UCX nor CUDA to be loaded, and shows nothing but its interface.
library=$top_builddir/src/sync/.libs/libucx-gdr.so.0
expect "neither UCX nor CUDA is needed" "" "$(objdump -p "$library" | grep -E 'NEEDED +lib(uc[pst]|cuda|ibverbs)')"
sed -n 's/^ *\(ugdr_[a-z_]*\);/\1/p' "$top_srcdir/src/sync/exports.map" | sort >"$work/map"
nm -D --defined-only "$library" | sed -n 's/.* T \([a-z_]*\)@@UGDR_0$/\1/p' | sort >"$work/exported"
grep -oE '\bugdr_[a-z_]+\(' "$top_srcdir/src/sync/ucx-gdr/ugdr.h" | tr -d '(' | sort -u >"$work/declared"
check "exported is what the map says" diff "$work/map" "$work/exported"
expect "and declared" "" "$(comm -23 "$work/map" "$work/declared")"

run_cases sync_test --gtest_brief=1 >"$work/log" 2>&1
cat "$work/log"
says "the worker's thread mode is SINGLE, and the library's thread has to use it"
says "choose UGDR_PROGRESS_CALLER and call ugdr_progress()"

section "kernels that are loaded when they are launched"
UCX_LOG_LEVEL=info run_cases sync_test --gtest_brief=1 --gtest_filter='Initiated.EveryKind' >"$work/log" 2>&1
says "set CUDA_MODULE_LOADING=EAGER"
CUDA_MODULE_LOADING=EAGER UCX_LOG_LEVEL=info run_cases sync_test --gtest_brief=1 --gtest_filter='Initiated.EveryKind' >"$work/log" 2>&1
expect "nothing is said of kernels that are loaded early" 0 "$(grep -c CUDA_MODULE_LOADING "$work/log")"
section ""

# Kernels' conditions need no memory operations of streams.
section "without memory operations"
SOFTCUDA_MEMOPS=0 run_cases sync_test --gtest_brief=1 --gtest_filter='Kernels.*'

# The library's thread finds that out while streams and kernels wait for it.
section "an HCA that takes no GPU memory"
SOFTHCA_GPU_DIRECT=none run_cases sync_test --gtest_brief=1 --gtest_filter='Kernels.Partitions*'

section "a short queue of launches"
SOFTCUDA_LAUNCH_QUEUE=100 run_cases sync_test --gtest_brief=1 --gtest_filter='FullQueue.*'

for queues in 2 32; do
    section "$queues hardware queues"
    SOFTCUDA_CONNECTIONS=$queues CUDA_DEVICE_MAX_CONNECTIONS=$queues run_cases sync_test --gtest_brief=1 \
        --gtest_filter='*.MoreWaitingStreams*' >"$work/log" 2>&1
    cat "$work/log"
    says "more streams wait than the GPU has hardware queues ($queues)"
done
section ""
if extended; then
    section "a million rounds"
    SYNC_ROUNDS=1000000 run_cases sync_test --gtest_brief=1 --gtest_filter='Initiated.SignalsNeverBeforeDataInGpuMemory'
    section ""
fi

special HostFunctionsTriggerWhereThereAreNoMemops SOFTCUDA_MEMOPS=0
special HostFunctionsTriggerInGraphs SOFTCUDA_MEMOPS=0
says "streams of this GPU cannot wait: its driver has no stream memory operations"

# Drivers of CUDA 11.3 to 11.6: in graphs nothing waits, streams do.
sanitizer=$runtime
section "a driver without nodes of memory operations"
runtime=$sanitizer$(driver_without cuGraphAddBatchMemOpNode):
special HostFunctionsTriggerInGraphs
says "graphs cannot wait: the driver has no nodes of memory operations (before CUDA 11.7)"
run_cases sync_test --gtest_brief=1 --gtest_filter='Order.*'
# Before that there are no graphs; and one call does not trigger and wait.
section "a driver without user objects"
runtime=$sanitizer$(driver_without cuUserObjectCreate):
special NoGraphsWithoutUserObjects
says "operations in graphs need a driver of CUDA 11.3 or later"
section "a driver without batches"
runtime=$sanitizer$(driver_without cuStreamBatchMemOp):
run_cases sync_test --gtest_brief=1 --gtest_filter='Batches.AStream*:Batches.APoint*:Batches.RecordedAgain:Batches.NeverDestroyed'
runtime=$sanitizer
section ""

special NothingIsLeftOfWhatFailsHalfWay SOFTCUDA_PINNED=256M
special FlushedBeforeAStreamGoesOn SOFTCUDA_RDMA_ORDERING=flush
special FlushedBeforeAKernelGoesOn SOFTCUDA_RDMA_ORDERING=flush
special NoWaitsWhereNothingCanBeFlushed SOFTCUDA_RDMA_ORDERING=none
expected=77
case ${GDR_SANITIZERS:-none} in
*thread*) skip_case "ExitWithoutDestroying: status" "threads that run while UCX takes itself down are races" ;;
*) special ExitWithoutDestroying ;;
esac
done_testing
