#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# MPI calls of four ranks on HCAs that answer as other providers' do, with every MPI that is installed: on host memory
# with each of them, since what gdr leaves out is left to tcp; on GPU memory with those that gdr uses,
# but for calls that an HCA without atomics leaves to the CPU (docs/reference/providers.md). A landing has one of them.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
! on_softmlx5 || skip_all "the emulated HCA answers as other providers do; libmlx5 is one of its own"
# shellcheck source=test/ucp/profiles.sh
. "$top_srcdir/test/ucp/profiles.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

used=(e810) left_out=(mana)
! extended || used=("${used_profiles[@]}") left_out=("${!left_out_profiles[@]}" nvswitch_port)
calls_by_cpu='MPI_(R?(Get_)?[Aa]ccumulate|Fetch_and_op|Compare_and_swap)'

# Over tcp ranks that poll take turns on few processors.
export MPIR_CVAR_POLLS_BEFORE_YIELD=1 OMPI_MCA_mpi_yield_when_idle=1
for mpi in "${mpis[@]}"; do
    program=$top_builddir/test/mpi/mpi_calls.$mpi
    mapfile -t all < <("$program" --list)
    mapfile -t without_atomics < <("$program" --list | grep -vxE "$calls_by_cpu")
    for profile in "${used[@]}"; do
        export SOFTHCA_PROFILE=$profile
        calls=("${all[@]}")
        case $profile in thor | e810) calls=("${without_atomics[@]}") ;; esac
        try "$profile, $mpi, host memory" "$mpi" 4 "$program" host 1000 "${all[@]}"
        # Of MPICH's calls some end in a message whatever the HCA is (calls_test.sh).
        [[ $mpi = mpich ]] || try "$profile, $mpi, GPU memory" "$mpi" 4 "$program" cuda 1000 "${calls[@]}"
    done
    for profile in "${left_out[@]}"; do
        export SOFTHCA_PROFILE=$profile UCX_TLS=gdr,tcp,self
        # MPICH 4.0.2 over tcp stands still in MPI_Finalize now and then, without ucx-gdr too.
        [[ $mpi = mpich ]] || try "$profile is left out, $mpi, host memory" "$mpi" 4 "$program" host 1000 "${all[@]}"
    done
    export UCX_TLS=gdr
done
done_testing
