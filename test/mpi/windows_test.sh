#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Puts and gets of GPU memory at windows of every kind (mpi_windows), with every MPI that is installed: what UCX carries goes directly,
# the rest, which MPI libraries copy with the CPU, is staged. Open MPI as ucx-gdr run has it: with its layer for windows in shared memory.
# What MPICH cannot do with windows in GPU memory is told of when they are made, once for each of two kinds; of others nothing is.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

kinds=(create allocate create_dynamic)
# Open MPI puts each piece between gaps by itself, and a few bytes of GPU memory are a round trip each: on softmlx5 as long as ranks take to
# take turns.
integers=100000
! on_softmlx5 || integers=10000

# right MPI COUNT KIND...: COUNT ranks, windows of MPI_Win_KIND. Whoever lets MPI have GPU memory that it cannot read may stand still.
right() {
    local mpi=$1 count=$2 what="$1 ${OMPI_MCA_osc-without OMPI_MCA_osc}, $2 ranks"
    shift 2
    rm -f "$work/statistics"
    UCX_GDR_STATS=$work/statistics ranks "$mpi" "$count" "$top_builddir/test/mpi/mpi_windows.$mpi" $integers "$@"
    if [[ $(grep -c '^rank . done' "$log") -ne $count ]] || grep -q '^rank . wrong' "$log"; then
        not_ok "$what" "$log"
    else
        ok "$what"
    fi
}

# each_moved HOW COUNT: whether so many ranks moved bytes "direct" or "staged".
each_moved() {
    expect "$mpi: $1 by each of $2 ranks" "$2" "$(grep -c "mpi_$1_bytes=[1-9]" "$work/statistics")"
}

# told CALL NUMBER: how many ranks warned of what it makes.
told() {
    expect "$mpi: warnings of MPI_$1" "$2" "$(grep -c "MPI_$1: a window in GPU memory: .*run with Open MPI" "$log")"
}

for mpi in "${mpis[@]}"; do
    for count in 2 3; do
        OMPI_MCA_osc=ucx,sm right "$mpi" $count "${kinds[@]}" allocate_shared
        each_moved direct $count
        each_moved staged $count
        told 'Win.*' 0
    done
    OMPI_MCA_osc=ucx,sm right "$mpi" 2 on_gpu
    warnings=0
    [[ $mpi != mpich ]] || warnings=2
    told Win_create $warnings
    told Win_attach $warnings
done

# Among UCX's own transports within a host, as ucx-gdr run gives them, protocols v1 copy with the processor.
for mpi in "${mpis[@]}"; do
    for protocols in n y; do
        UCX_PROTO_ENABLE=$protocols UCX_TLS=gdr,sm,self OMPI_MCA_osc=ucx,sm right "$mpi" 2 "${kinds[@]}"
    done
done

# Other layers of Open MPI for windows carry some or all of them, whether they are asked for by the environment or a file.
if [[ " ${mpis[*]} " == *" openmpi "* ]]; then
    mpi=openmpi
    for OMPI_MCA_osc in rdma pt2pt ^sm ucx,rdma; do
        export OMPI_MCA_osc
        right openmpi 2 "${kinds[@]}"
        each_moved staged 2
    done
    unset OMPI_MCA_osc
    mkdir "$work/home" "$work/home/.openmpi"
    for layers in rdma ucx; do
        echo "osc = $layers" >"$work/home/.openmpi/mca-params.conf"
        section "mca-params.conf, $layers"
        HOME=$work/home right openmpi 2 "${kinds[@]}"
    done
    each_moved direct 2
fi
done_testing
