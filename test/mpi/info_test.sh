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
    UCX_GDR_STATS=$work/statistics ranks "$mpi" 3 "$top_builddir/test/mpi/mpi_info.$mpi" "$work" || {
        echo "FAILED: $mpi (status $?)" && head -n 30 "$log" && failed=1
        continue
    }
    # Sums of 2^20 bytes; or nothing in a build without kernels.
    by_gpus=$(sed -n 's/.*: ok, \([0-9]*\) calls by the GPUs/\1/p' "$log" | sort -u)
    awk -v each="$([[ $kernels = no ]] || echo $((by_gpus << 20)))" '
        match($0, /mpi_gpu_bytes=[0-9]+/) { lines += substr($0, RSTART + 14, RLENGTH - 14) == each + 0 }
        END { exit lines != 3 }' "$work/statistics" || { echo "FAILED: $mpi: not those calls were made by GPUs" && cat "$work/statistics" && failed=1; }
    [[ $(grep -c 'gdr_mpi_coll=sideways is ignored' "$log") -eq 3 ]] || { echo "FAILED: $mpi: a value that is none is not told of" && failed=1; }
    echo "ok: $mpi"

    # Without a GPU, and without the layer, MPI's answer is its own.
    for nothing in "SOFTCUDA_DEVICES=0" "GDR_PRELOAD=$softhca:$module"; do
        (export "${nothing?}" && ranks "$mpi" 1 "$top_builddir/test/mpi/mpi_info.$mpi" --own) || { echo "FAILED: $mpi, $nothing" && head -n 5 "$log" && failed=1; }
    done
    command -v "mpif90.$mpi" >/dev/null || continue
    for binding in 1 2 3; do
        "mpif90.$mpi" -cpp -w -fallow-argument-mismatch -DBINDING=$binding "$top_srcdir/test/mpi/mpi_info.f90" -o "$work/info" \
            "$softcuda/libcuda.so.1" || { failed=1 && continue; }
        if ranks "$mpi" 1 "$work/info" && grep -q 'cuda:device' "$log"; then
            echo "ok: $mpi: Fortran, binding $binding"
        else
            echo "FAILED: $mpi: Fortran, binding $binding" && head -n 5 "$log" && failed=1
        fi
    done
done
exit $failed
