#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Jobs of four ranks on softmlx5: UCX's DC transport with host memory, and gdr with that of emulated GPUs.
set -u

export GDR_TEST_HCA=mlx5
# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"
has_softmlx5=$(ldconfig -p 2>/dev/null | grep -c 'libmlx5\.so\.1')
[[ -e $top_builddir/src/emu/softmlx5/.libs/libsoftmlx5.so && $has_softmlx5 -gt 0 ]] || skip_all "no softmlx5, or no libmlx5"

some=(MPI_Send MPI_Isend MPI_Bcast MPI_Allreduce MPI_Alltoall MPI_Gather MPI_Put)

# four NAME MPI KIND: the ranks succeed.
four() {
    if calls "$2" 4 "$3" 1000 "${some[@]}"; then ok "$2, $1"; else not_ok "$2, $1" "$log"; fi
}
for mpi in "${mpis[@]}"; do
    four "gdr, GPU memory" "$mpi" cuda
    if LD_PRELOAD=$emulated_hca ucx_info -d 2>/dev/null | grep -q dc_mlx5; then
        GDR_PRELOAD=$emulated_hca UCX_TLS=dc_x,self four "dc_x" "$mpi" host
    else
        skip_case "$mpi, dc_x" "this UCX has no dc_mlx5"
    fi
done
done_testing
