#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# The examples of libucx-gdr in contrib/examples, compiled as their first lines say, on the emulated devices; that
# with kernels of its own for the CPU.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

export LD_LIBRARY_PATH=$top_builddir/src/sync/.libs:$LD_LIBRARY_PATH

# build MPI NAME: to $work/MPI.NAME.
build() {
    local line
    line=$(sed -n "s|^// *mpicxx \\(.*\\) $2.cpp -o $2 \\(.* -ldl\\)\$|\\1 \\2|p" "$top_srcdir/contrib/examples/$2.cpp")
    # shellcheck disable=SC2086 # arguments
    "$(mpicxx_of "$1")" -I"$top_srcdir/src/sync" -L"$top_builddir/src/sync/.libs" ${CUDA_CFLAGS:-} \
        "$top_srcdir/contrib/examples/$2.cpp" -o "$work/$1.$2" $line || exit 99
}

# build_for_cpu MPI NAME: the same of NAME.cu, with its kernels compiled for the CPU: a launch is a call, counters of the
# emulated GPU are at their alias.
build_for_cpu() {
    sed -z 's/\([a-z_]*\)<<<\([^,]*\), kThreads, 0, stream>>>(\([^;]*\));/run_blocks(\2, [\&] { \1(\3); });/g' \
        "$top_srcdir/contrib/examples/$2.cu" >"$work/$2.cpp"
    sed -e 's/GDR(ugdr_device_handle(.*/&\n        handle.counters = on_host(handle.counters, 16 * channels_);/' \
        "$top_srcdir/contrib/examples/peers.cuh" >"$work/peers.cuh"
    # shellcheck disable=SC2086 # arguments
    "$(mpicxx_of "$1")" -std=c++20 -O1 -I"$top_srcdir/test/sync/cpu" -I"$top_srcdir/src/sync" ${CUDA_CFLAGS:-} "$work/$2.cpp" \
        -o "$work/$1.$2" -L"$top_builddir/src/sync/.libs" -lucx-gdr -lucp -lucs -ldl || exit 99
}

# example MPI RANKS AWK-CONDITION NAME [ARGUMENT]...: succeeds, and the condition holds at the end of
# what its ranks say.
example() {
    local mpi=$1 count=$2 condition=$3 name=$4
    shift 4
    ranks "$mpi" "$count" "$work/$mpi.$name" "$@"
    status=$?
    if [[ $status = 0 ]] && awk "$condition" "$log"; then
        ok "$name $*, $mpi, $count ranks"
    else
        not_ok "$name $*, $mpi, $count ranks" "$log"
        note "status $status"
    fi
}

# right COUNT: so many ranks say that nothing was wrong.
right() { echo "/100 rounds of .* numbers, 0 wrong/ { ++right } END { exit right != $1 }"; }

# The solution is right, and each of COUNT threads slept nearly all the time.
asleep() {
    echo "/largest difference from the serial solution: 0\$/ { right = 1 }
        /of .* ms on the CPU/ { asleep += \$3 < \$5 / 4 }
        END { exit !(right && asleep == $1) }"
}

# The solution is right, and each of COUNT ranks had enqueued everything before the end. One that waits for its stream in each
# sweep is there at 99.9 % of the time; one that a busy machine stops for a while, with most sweeps to come, is not.
ahead() {
    echo "/largest difference from the serial solution: 0\$/ { right = 1 }
        /enqueued within/ { ahead += \$5 < \$7 * 9 / 10 }
        END { exit !(right && ahead == $1) }"
}

for mpi in "${mpis[@]}"; do
    for name in stream bcast sweeps enqueue; do
        build "$mpi" $name
    done
    for numbers in 2 1000000; do
        example "$mpi" 2 "$(right 2)" stream $numbers
    done
    for numbers in 2 10000; do
        example "$mpi" 4 "$(right 4)" bcast $numbers
    done
    export SOFTCUDA_COPY_LATENCY_US=500 # most of the time is the GPU's
    for count in 2 4; do
        example "$mpi" $count "$(asleep $count)" sweeps 64 50
    done
    for count in 2 4; do
        example "$mpi" $count "$(ahead $count)" enqueue 64 50
    done
    unset SOFTCUDA_COPY_LATENCY_US

    for name in experts halo; do
        build_for_cpu "$mpi" $name
    done
    for count in 1 2 4; do
        example "$mpi" $count '/ 0 of [0-9]* numbers wrong/ { ++right } END { exit right != 2 }' experts 8 2
        example "$mpi" $count '/ solution: 0$/ { ++right } END { exit right != 2 }' halo 33 40
    done
done
done_testing
