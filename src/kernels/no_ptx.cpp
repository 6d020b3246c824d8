// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Replaces the compiled kernels in a build without clang.
#include "kernels/loaded_kernels.hpp"

constinit const std::span<const gdr::kernels::PtxKernel> gdr::kernels::pack_ptx;
constinit const std::span<const gdr::kernels::PtxKernel> gdr::kernels::reduce_ptx;
