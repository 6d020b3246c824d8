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
calls=(MPI_Send MPI_Sendrecv MPI_Bcast MPI_Allreduce MPI_Alltoall MPI_Allgatherv MPI_Put MPI_Get)

# try SWITCH MPI RANKS GPUS PROGRAM [ARGUMENT]...: right, and bytes go by CUDA IPC where UCX_GDR_IPC is y, none where n.
try() {
    local switch=$1 mpi=$2 number=$3 gpus=$4 program=$5 bytes
    local what="$mpi, $number ranks on $gpus GPUs, $program, UCX_GDR_IPC=$switch, seed $seed"
    shift 5
    rm -f "$work/statistics"
    if ! UCX_GDR_IPC=$switch SOFTCUDA_DEVICES=$gpus UCX_GDR_STATS=$work/statistics \
        ranks "$mpi" "$number" "$top_builddir/test/mpi/$program.$mpi" "$@"; then
        echo "FAILED: $what"
        head -n 30 "$log"
        failed=1
        return
    fi
    bytes=$(sed -n 's/.* ipc_bytes=\([0-9]*\).*/\1/p' "$work/statistics" | awk '{ sum += $1 } END { print sum + 0 }')
    if [[ $switch = y && $bytes -gt 0 || $switch = n && $bytes -eq 0 ]]; then
        echo "ok: $what: $bytes bytes by CUDA IPC"
    else
        echo "FAILED: $what: $bytes bytes by CUDA IPC"
        failed=1
    fi
}

for mpi in "${mpis[@]}"; do
    for gpus in 1 2; do
        for number in 2 4; do
            try y "$mpi" $number $gpus mpi_calls cuda 100000 "${calls[@]}"
        done
    done
    try n "$mpi" 2 2 mpi_calls cuda 100000 "${calls[@]}"
    try y "$mpi" 2 2 mpi_types "$seed" 40
    try y "$mpi" 4 1 mpi_reductions "$seed"
done
exit $failed
