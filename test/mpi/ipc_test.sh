#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# MPI between processes of one host by CUDA IPC, on emulated GPUs, with every MPI that is installed: calls, datatypes
# and reductions on two and four ranks that share one GPU or two; that bytes went that way, and none where it is switched
# off. IPC_TEST_SEED repeats another run.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

# Copies that cost nothing but their bytes are chosen at all sizes.
export UCX_GDR_IPC_OVERHEAD=0us UCX_GDR_IPC_LATENCY=0us
seed=${IPC_TEST_SEED-$RANDOM}
note "IPC_TEST_SEED=$seed"
calls=(MPI_Send MPI_Sendrecv MPI_Bcast MPI_Allreduce MPI_Alltoall MPI_Allgatherv MPI_Put MPI_Get)

# try_ipc SWITCH MPI RANKS GPUS PROGRAM [ARGUMENT]...: right, and bytes go by CUDA IPC where UCX_GDR_IPC is y, none where n.
try_ipc() {
    local switch=$1 mpi=$2 number=$3 gpus=$4 program=$5 bytes
    local what="$mpi, $number ranks on $gpus GPUs, $program, UCX_GDR_IPC=$switch"
    shift 5
    rm -f "$work/statistics"
    UCX_GDR_IPC=$switch SOFTCUDA_DEVICES=$gpus UCX_GDR_STATS=$work/statistics \
        try "$what" "$mpi" "$number" "$top_builddir/test/mpi/$program.$mpi" "$@" || return
    bytes=$(sed -n 's/.* ipc_bytes=\([0-9]*\).*/\1/p' "$work/statistics" | awk '{ sum += $1 } END { print sum + 0 }')
    case $switch in
        y) check "$what: bytes by CUDA IPC" [ "$bytes" -gt 0 ] ;;
        n) expect "$what: bytes by CUDA IPC" 0 "$bytes" ;;
    esac
    note "$bytes bytes by CUDA IPC"
}

for mpi in "${mpis[@]}"; do
    for gpus in 1 2; do
        for number in $(numbers 2 4); do
            try_ipc y "$mpi" $number $gpus mpi_calls cuda 100000 "${calls[@]}"
        done
    done
    try_ipc n "$mpi" 2 2 mpi_calls cuda 100000 "${calls[@]}"
    try_ipc y "$mpi" 2 2 mpi_types "$seed" 40
    try_ipc y "$mpi" 4 1 mpi_reductions "$seed"
done
done_testing
