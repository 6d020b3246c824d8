#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# UCX_GDR_MPI_COLL=gpu on the emulated devices, with every MPI that is installed: every predefined operation on every
# type, and each call, on GPUs and with host memory among the buffers, on one to five ranks; that the GPUs do it where
# they are asked to, and nowhere else: not where one of the ranks has none; and that nothing is staged of the operations
# and types that GPUs reduce. REDUCTIONS_TEST_SEED repeats another run.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

seed=${REDUCTIONS_TEST_SEED-$RANDOM}
note "REDUCTIONS_TEST_SEED=$seed"
kernels=$(sed -n "s/^KERNEL_CLANG = //p" "$top_builddir/Makefile")

cat >"$work/poor" <<'END'
[[ ${OMPI_COMM_WORLD_RANK-$PMI_RANK} -ne $1 ]] || export SOFTCUDA_DEVICES=0
exec "${@:2}"
END

# bytes COUNTER: of all ranks.
bytes() { sed "s/.* $1=\([0-9]*\).*/\1/" "$work/statistics" | awk '{ sum += $1 } END { print sum + 0 }'; }

# try_way MPI NUMBER WAY EXPECTED [POOR [pairs]]: EXPECTED is whether GPUs reduce, POOR the rank that has none.
try_way() {
    local what="$1, $2 ranks, UCX_GDR_MPI_COLL=$3${5:+, rank $5 without a GPU}${6:+, all of it}" by_gpus=no
    rm -f "$work/statistics"
    UCX_GDR_STATS=$work/statistics UCX_GDR_MPI_COLL=$3 try "$what" "$1" "$2" bash "$work/poor" "${5:--1}" \
        "$top_builddir/test/mpi/mpi_reductions.$1" "$seed" ${6:+"$6"} || return
    [[ $(bytes mpi_gpu_bytes) -eq 0 ]] || by_gpus=yes
    [[ -z ${6-} || $(bytes mpi_staged_bytes) -eq 0 ]] || by_gpus="some of it"
    expect "$what: reduced by GPUs" "$4" "$by_gpus"
}

able=yes
[[ $kernels != no ]] || able=no
for mpi in "${mpis[@]}"; do
    case $mpi in
    openmpi) some="2 5" all=3 ;;
    mpich) some="3 4" all=2 ;;
    esac
    [[ $able = no ]] || try_way "$mpi" "$(numbers $all)" gpu yes '' pairs
    sed -n "s/^this MPI/note: $mpi/p" "$log"
    try_way "$mpi" 1 gpu no
    for number in $(numbers $some); do
        try_way "$mpi" "$number" gpu $able
    done
    try_way "$mpi" 2 stage no
    try_way "$mpi" 2 gpu no 1
done
done_testing
