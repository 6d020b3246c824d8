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
note "NCCL_TEST_SEED=$seed"
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

# judge WHAT STATUS nccl|gpu|no [MESSAGE [BROADCASTS]]: who made calls, what was said, that no communicator is left,
# how many broadcasts were NCCL's, of all ranks, and that no process had two operations of NCCL's at once.
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
        not_ok "$what" "$log"
    else
        ok "$what"
    fi
    note "status $status, made by $who (expected $expected), $made communicators of which $ended ended"
    expect "$what: no operations of NCCL at once" "" "$(sed -n 's/.*at_once=//p' "$work/nccl" 2>/dev/null | grep -v '^[01]$')"
    [[ ${5--1} -lt 0 ]] || expect "$what: broadcasts by NCCL" "$5" "$broadcasts"
    rm -f "$work/statistics" "$work/nccl"
}

# How NCCL is asked for its calls: blocking, as NCCL_COMM_BLOCKING has it, or by default, which pays for large ones alone. $many numbers.
blocking() { NCCL_COMM_BLOCKING=1 "$@"; }
large() { many=4200000 "$@"; }

# rounds MPI NUMBER ROUND nccl|gpu|no MESSAGE [RANK VARIABLE=VALUE]: of ten calls that one fails, on all ranks (0: none), and
# those after it are made by others; the latter are one rank's alone.
rounds() {
    UCX_GDR_STATS=$work/statistics UCX_GDR_MPI_COLL=nccl ranks "$1" "$2" bash "$work/odd" "${6--1}" "${7-NONE=}" \
        "$top_builddir/test/mpi/mpi_failures.$1" "$3" ${many-}
    judge "$1, $2 ranks${NCCL_COMM_BLOCKING+, blocking}${many+, $many numbers}${SOFTNCCL_FAULT+, SOFTNCCL_FAULT=$SOFTNCCL_FAULT}${5:+, $5}${7:+, rank $6 with $7}" $? "$4" "$5"
}

# threads MPI NUMBER: several communicators at the same time.
threads() {
    UCX_GDR_STATS=$work/statistics UCX_GDR_MPI_COLL=nccl ranks "$1" "$2" "$top_builddir/test/mpi/mpi_threads.$1" 10 0
    judge "$1, $2 ranks of four threads" $? nccl
}

# every_call MPI NUMBER: those that NCCL makes, and those that it does not.
every_call() {
    UCX_GDR_STATS=$work/statistics UCX_GDR_MPI_COLL=nccl ranks "$1" "$2" "$top_builddir/test/mpi/mpi_reductions.$1" "$seed"
    judge "$1, $2 ranks, every call" $? nccl '' $(($2 < 3 ? 0 : $2))
}

# what NCCL's place is taken by: a ring of messages, where there are kernels; and for which of some hundred KiB it leaves its place.
other=gpu faster=gpu
[[ $kernels != no ]] || other=no faster=nccl

for mpi in "${mpis[@]}"; do
    case $mpi in
    openmpi) blocking every_call "$mpi" 2 ;;
    mpich) blocking every_call "$mpi" 4 ;;
    esac
    rounds "$mpi" 3 0 $faster ''
    large rounds "$mpi" 3 0 nccl ''
    blocking rounds "$mpi" 3 0 nccl ''
    rounds "$mpi" 2 0 no '' 1 SOFTCUDA_DEVICES=0
    SOFTCUDA_DEVICES=1 blocking rounds "$mpi" 2 0 $other 'not made by NCCL: ranks 0 and 1 share a GPU'
    LD_LIBRARY_PATH=$work/none:$emulated rounds "$mpi" 2 0 $other 'not made by NCCL: .*libnccl.so.2: file too short'
    LD_LIBRARY_PATH=$work/part:$emulated rounds "$mpi" 2 0 $other 'not made by NCCL: libnccl.so.2 2.23.4 has no ncclGetUniqueId'
    SOFTNCCL_VERSION=21304 rounds "$mpi" 2 0 $other 'not made by NCCL: libnccl.so.2 is older than 2.14: 2.13.4'
    SOFTNCCL_FAULT=init:1 large rounds "$mpi" 3 0 $other 'not made by NCCL: ncclCommInitRankConfig: .*as asked for'
    rounds "$mpi" 2 0 $other 'not made by NCCL: its version or NCCL_COMM_BLOCKING differs' 1 SOFTNCCL_VERSION=22000
    rounds "$mpi" 2 0 $other 'not made by NCCL: its version or NCCL_COMM_BLOCKING differs' 1 NCCL_COMM_BLOCKING=1
    UCX_LOG_LEVEL=diag rounds "$mpi" 2 0 $other 'not made by NCCL: not all of them have it' 0 UCX_GDR_MPI_COLL=gpu
    for mode in blocking large; do
        SOFTNCCL_FAULT=async:1:4 $mode rounds "$mpi" 3 4 nccl 'MPI_Allreduce failed on a GPU: ncclAllReduce: it has failed on another rank'
        check "$mpi, $mode: a reason of its own" grep -q 'MPI_Allreduce failed on a GPU: ncclAllReduce: remote process exited' "$log"
    done
    SOFTNCCL_FAULT=stall:1:4:300 blocking rounds "$mpi" 3 0 nccl ''
    blocking threads "$mpi" 3
done
done_testing
