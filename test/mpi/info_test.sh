#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Info keys with every MPI that is installed: what MPI tells of memory kinds, in C and Fortran, and which communicators'
# calls the GPUs make.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

kernels=$(sed -n "s/^KERNEL_CLANG = //p" "$top_builddir/Makefile")
for mpi in "${mpis[@]}"; do
    rm -f "$work/statistics"
    UCX_GDR_STATS=$work/statistics try "$mpi" "$mpi" 3 "$top_builddir/test/mpi/mpi_info.$mpi" "$work" || continue
    # Sums of 2^20 bytes; or nothing in a build without kernels.
    by_gpus=$(sed -n 's/.*: ok, \([0-9]*\) calls by the GPUs/\1/p' "$log" | sort -u)
    awk -v each="$([[ $kernels = no ]] || echo $((by_gpus << 20)))" '
        match($0, /mpi_gpu_bytes=[0-9]+/) { lines += substr($0, RSTART + 14, RLENGTH - 14) == each + 0 }
        END { exit lines != 3 }' "$work/statistics"
    expect "$mpi: those calls were made by GPUs" 0 $?
    cat "$work/statistics"
    expect "$mpi: a value that is none is told of by each rank" 3 "$(grep -c 'gdr_mpi_coll=sideways is ignored' "$log")"

    # Without a GPU, and without the layer, MPI's answer is its own.
    SOFTCUDA_DEVICES=0 try "$mpi, without a GPU" "$mpi" 1 "$top_builddir/test/mpi/mpi_info.$mpi" --own
    GDR_PRELOAD=$emulated_hca:$module try "$mpi, without the layer" "$mpi" 1 "$top_builddir/test/mpi/mpi_info.$mpi" --own
    command -v "mpif90.$mpi" >/dev/null || continue
    for binding in 1 2 3; do
        "mpif90.$mpi" -cpp -w -fallow-argument-mismatch -DBINDING=$binding "$top_srcdir/test/mpi/mpi_info.f90" -o "$work/info" \
            "$softcuda/libcuda.so.1" || { not_ok "$mpi: Fortran, binding $binding, is compiled" && continue; }
        if ranks "$mpi" 1 "$work/info" && grep -q 'cuda:device' "$log"; then
            ok "$mpi: Fortran, binding $binding"
        else
            not_ok "$mpi: Fortran, binding $binding" "$log"
        fi
    done
done
done_testing
