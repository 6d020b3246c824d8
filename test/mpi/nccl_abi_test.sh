#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What the MPI layer declares of NCCL is what its header says: each nccl.h that is installed, by a package, with CUDA or
# with Python's nvidia-nccl-cu12 or -cu13, or that of the directory NCCL_INCLUDE.
set -u
# shellcheck source=test/lib.sh
. "$top_srcdir/test/lib.sh"

# Of what it includes NCCL's header needs the names of streams and events alone.
echo '#include <cuda.h>' >"$work/cuda_runtime.h"
echo 'typedef CUstream cudaStream_t; typedef CUevent cudaEvent_t;' >>"$work/cuda_runtime.h"
for header in cuda_fp16.h cuda_bf16.h cuda_fp8.h; do
    : >"$work/$header"
done

python=$(python3 -c 'import nvidia.nccl; print(*nvidia.nccl.__path__)' 2>/dev/null)
cuda_flags=$(sed -n 's/^CUDA_CFLAGS = //p' "$top_builddir/Makefile")
checked=0
for directory in ${NCCL_INCLUDE-} ${python:+"$python/include"} /usr/include /usr/local/cuda/include; do
    [ -f "$directory/nccl.h" ] || continue
    version=$(sed -n 's/^#define NCCL_\(MAJOR\|MINOR\|PATCH\) *//p' "$directory/nccl.h" | paste -sd .)
    mkdir -p "$work/$checked"
    cp "$directory/nccl.h" "$work/$checked/"
    # shellcheck disable=SC2086 # options
    if ${CXX-c++} -std=c++20 -fsyntax-only $cuda_flags -I"$work/$checked" -I"$work" -I"$top_srcdir/src" \
        "$top_srcdir/test/mpi/nccl_abi_check.cpp"; then
        ok "NCCL $version"
    else
        not_ok "NCCL $version"
    fi
    note "$directory"
    checked=$((checked + 1))
done
[ $checked -gt 0 ] || skip_all "no nccl.h (PyPI's nvidia-nccl-cu12 has one; NCCL_INCLUDE is the directory where it is)"
done_testing
