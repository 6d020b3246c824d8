#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# libucx-gdr on stock UCX, the emulated HCA and emulated GPUs.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
programs=$top_builddir/test/sync
export TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}suppressions=$top_srcdir/test/sync/thread.supp"
case ${GDR_SANITIZERS:-none} in # see Makefile.am
*thread*) export UCX_MEM_MMAP_HOOK_MODE=none ;;
esac
export SYNC_CUDART="${CUDART_SONAME:+$top_builddir/src/emu/softcudart/$CUDART_SONAME}"
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT

# says TEXT: it is in the output of the last program.
says() {
    grep -qF "$1" "$work/log" && return
    echo "FAILED: nothing says \"$1\""
    failed=1
}

# special NAME [VARIABLE=VALUE]...: one test with an environment of its own. Ends with status $expected.
expected=0
special() {
    name=$1
    shift
    echo "$name $*"
    timeout -k 5 300 env "$@" LD_PRELOAD="$runtime$softhca:$module" "$programs/sync_test" --gtest_brief=1 \
        --gtest_also_run_disabled_tests --gtest_filter="*.DISABLED_$name" >"$work/log" 2>&1
    status=$?
    tail -n 20 "$work/log"
    [ $status = $expected ] && return
    echo "FAILED: $name (status $status)"
    failed=1
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
if objdump -p "$library" | grep -E 'NEEDED +lib(uc[pst]|cuda|ibverbs)'; then
    echo "FAILED: libraries that are needed"
    failed=1
fi
sed -n 's/^ *\(ugdr_[a-z_]*\);/\1/p' "$top_srcdir/src/sync/exports.map" | sort >"$work/map"
nm -D --defined-only "$library" | sed -n 's/.* T \([a-z_]*\)@@UGDR_0$/\1/p' | sort >"$work/exported"
grep -oE '\bugdr_[a-z_]+\(' "$top_srcdir/src/sync/ucx-gdr/ugdr.h" | tr -d '(' | sort -u >"$work/declared"
diff "$work/map" "$work/exported" || { echo "FAILED: exported, but not as the map says"; failed=1; }
[ "$(comm -23 "$work/map" "$work/declared")" = "" ] || { echo "FAILED: exported, not declared"; failed=1; }

run sync_test --gtest_brief=1 >"$work/log" 2>&1
tail -n 40 "$work/log"
says "the worker's thread mode is SINGLE, and the library's thread has to use it"
says "choose UGDR_PROGRESS_CALLER and call ugdr_progress()"

# Kernels' conditions need no memory operations of streams.
SOFTCUDA_MEMOPS=0 run sync_test --gtest_brief=1 --gtest_filter='Kernels.*'

SOFTCUDA_LAUNCH_QUEUE=100 run sync_test --gtest_brief=1 --gtest_filter='FullQueue.*'

for queues in 2 32; do
    SOFTCUDA_CONNECTIONS=$queues CUDA_DEVICE_MAX_CONNECTIONS=$queues run sync_test --gtest_brief=1 \
        --gtest_filter='*.MoreWaitingStreams*' >"$work/log" 2>&1
    cat "$work/log"
    says "more streams wait than the GPU has hardware queues ($queues)"
done

special HostFunctionsTriggerWhereThereAreNoMemops SOFTCUDA_MEMOPS=0
special HostFunctionsTriggerInGraphs SOFTCUDA_MEMOPS=0
says "streams of this GPU cannot wait: its driver has no stream memory operations"

# Drivers of CUDA 11.3 to 11.6: in graphs nothing waits, streams do.
sanitizer=$runtime
runtime=$sanitizer$(driver_without cuGraphAddBatchMemOpNode):
special HostFunctionsTriggerInGraphs
says "graphs cannot wait: the driver has no nodes of memory operations (before CUDA 11.7)"
run sync_test --gtest_brief=1 --gtest_filter='Order.*'
# Before that there are no graphs; and one call does not trigger and wait.
runtime=$sanitizer$(driver_without cuUserObjectCreate):
special NoGraphsWithoutUserObjects
says "operations in graphs need a driver of CUDA 11.3 or later"
runtime=$sanitizer$(driver_without cuStreamBatchMemOp):
run sync_test --gtest_brief=1 --gtest_filter='Batches.AStream*:Batches.APoint*:Batches.RecordedAgain:Batches.NeverDestroyed'
runtime=$sanitizer

special NothingIsLeftOfWhatFailsHalfWay SOFTCUDA_PINNED=256M
special FlushedBeforeAStreamGoesOn SOFTCUDA_RDMA_ORDERING=flush
special NoWaitsWhereNothingCanBeFlushed SOFTCUDA_RDMA_ORDERING=none
expected=77
case ${GDR_SANITIZERS:-none} in
*thread*) echo "not run: ExitWithoutDestroying, since threads that run while UCX takes itself down are races" ;;
*) special ExitWithoutDestroying ;;
esac
exit $failed
