#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# UCX_GDR_MPI_COLL=nccl on the emulated devices and softnccl (test/emu/softnccl), with every MPI that is installed:
# every call on two to four ranks, each with a GPU; who makes it where NCCL cannot, and what is said of it; failures of
# NCCL on one rank; that its communicators end. NCCL_TEST_SEED repeats another run.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

seed=${NCCL_TEST_SEED-$RANDOM}
softnccl=$top_builddir/test/emu/softnccl/.libs
emulated=$LD_LIBRARY_PATH
export UCX_LOG_LEVEL=warn SOFTCUDA_DEVICES=4 LD_LIBRARY_PATH=$softnccl:$LD_LIBRARY_PATH
export SOFTNCCL_STATS=$work/nccl
kernels=$(sed -n "s/^KERNEL_CLANG = //p" "$top_builddir/Makefile")

# Runs what it is told with the environment of one rank changed: odd RANK VARIABLE=VALUE COMMAND...
cat >"$work/odd" <<'END'
[[ ${OMPI_COMM_WORLD_RANK-$PMI_RANK} -ne $1 ]] || export "$2"
exec "${@:3}"
END

# Libraries of that name that are none, and that lack what is needed.
mkdir "$work/none" "$work/part"
: >"$work/none/libnccl.so.2"
echo 'int ncclGetVersion(int* version) { *version = 22304; return 0; }' |
    ${CC-cc} -shared -fPIC -x c - -o "$work/part/libnccl.so.2" || exit 99

sum() { sed -n "s/.*$1=\([0-9]*\).*/\1/p" "$2" 2>/dev/null | awk '{ sum += $1 } END { print sum + 0 }'; }

# judge WHAT STATUS nccl|gpu|no [MESSAGE [BROADCASTS]]: who made calls, what was said, that no communicator is left, and
# how many broadcasts were NCCL's, of all ranks.
judge() {
    local what=$1 status=$2 expected=$3 message=${4-} who=no
    local gpu made ended operations broadcasts
    gpu=$(sum mpi_gpu_bytes "$work/statistics")
    operations=$(sum operations "$work/nccl")
    broadcasts=$(sum broadcasts "$work/nccl")
    made=$(sum made "$work/nccl") ended=$(($(sum destroyed "$work/nccl") + $(sum aborted "$work/nccl")))
    [[ $gpu -eq 0 ]] || who=gpu
    [[ $operations -eq 0 ]] || who=nccl
    if [[ $status -ne 0 || $who != "$expected" || $made -ne $ended ]] ||
        { [[ -n $message ]] && ! grep -q "$message" "$log"; } ||
        { [[ -z $message ]] && grep -q 'not made by NCCL' "$log"; }; then
        echo "FAILED: $what: status $status, made by $who (expected $expected), $made communicators of which $ended ended"
        head -n 30 "$log"
        failed=1
    else
        echo "ok: $what"
    fi
    if [[ ${5--1} -ge 0 && $broadcasts -ne $5 ]]; then
        echo "FAILED: $what: $broadcasts broadcasts by NCCL, not $5"
        failed=1
    fi
    rm -f "$work/statistics" "$work/nccl"
}

# fail_in MPI NUMBER ROUND MESSAGE: of ten calls that one fails, on all ranks, and those after it are made by others.
fail_in() {
    UCX_GDR_STATS=$work/statistics UCX_GDR_MPI_COLL=nccl ranks "$1" "$2" "$top_builddir/test/mpi/mpi_failures.$1" "$3"
    judge "$1, $2 ranks, SOFTNCCL_FAULT=$SOFTNCCL_FAULT" $? nccl "$4"
}

# threads MPI NUMBER: several communicators at the same time.
threads() {
    UCX_GDR_STATS=$work/statistics UCX_GDR_MPI_COLL=nccl ranks "$1" "$2" "$top_builddir/test/mpi/mpi_threads.$1" 10 0
    judge "$1, $2 ranks of four threads" $? nccl
}

# try MPI NUMBER nccl|gpu|no [MESSAGE [RANK VARIABLE=VALUE]]: every call; the latter are one rank's alone.
try() {
    UCX_GDR_STATS=$work/statistics UCX_GDR_MPI_COLL=nccl ranks "$1" "$2" bash "$work/odd" "${5--1}" "${6-NONE=}" \
        "$top_builddir/test/mpi/mpi_reductions.$1" "$seed"
    local status=$? broadcasts=0
    [[ $3 != nccl || $2 -lt 3 ]] || broadcasts=$2
    judge "$1, $2 ranks${4:+, $4}${6:+, rank $5 with $6}, seed $seed" $status "$3" "${4-}" $broadcasts
}

# what NCCL's place is taken by: a ring of messages, where there are kernels.
other=gpu
[[ $kernels != no ]] || other=no

for mpi in "${mpis[@]}"; do
    try "$mpi" 2 nccl
    try "$mpi" 4 nccl
    SOFTCUDA_DEVICES=1 try "$mpi" 2 $other 'not made by NCCL: ranks 0 and 1 share a GPU'
    LD_LIBRARY_PATH=$work/none:$emulated try "$mpi" 2 $other 'not made by NCCL: .*libnccl.so.2: file too short'
    LD_LIBRARY_PATH=$work/part:$emulated try "$mpi" 2 $other 'not made by NCCL: libnccl.so.2 2.23.4 has no ncclGetUniqueId'
    SOFTNCCL_VERSION=21304 try "$mpi" 2 $other 'not made by NCCL: libnccl.so.2 is older than 2.14: 2.13.4'
    SOFTNCCL_FAULT=init:1 try "$mpi" 3 $other 'not made by NCCL: ncclCommInitRankConfig: .*as asked for'
    UCX_LOG_LEVEL=diag try "$mpi" 2 $other 'not made by NCCL: not all have it, or another version' 1 SOFTNCCL_VERSION=22000
    UCX_LOG_LEVEL=diag try "$mpi" 2 $other 'not made by NCCL: not all have it, or another version' 0 UCX_GDR_MPI_COLL=gpu
    try "$mpi" 2 no '' 1 SOFTCUDA_DEVICES=0
    threads "$mpi" 3
    SOFTNCCL_FAULT=async:1:4 fail_in "$mpi" 3 4 'MPI_Allreduce failed on a GPU: ncclAllReduce: it has failed on another rank'
    SOFTNCCL_FAULT=async:1:4 fail_in "$mpi" 3 4 'MPI_Allreduce failed on a GPU: ncclAllReduce: remote process exited'
    SOFTNCCL_FAULT=stall:1:4:300 fail_in "$mpi" 3 0 ''
done
exit $failed
