// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Libraries: kernels of no context, loaded into each one in which they are first used.
#pragma once

#include "emu/softcuda/api.hpp"

// They came with CUDA 12.
#if CUDA_VERSION < 12000
using CUlibrary = struct CUlib_st*;
using CUkernel = struct CUkern_st*;
#endif

namespace softcuda {

struct LoadedKernel;

/// What a launch names: a function of a module, or in its place a kernel of a library, which is
/// loaded into the context, or the current one for nullptr. Throws CUDA_ERROR_INVALID_HANDLE, or
/// for a kernel what live_context() does.
LoadedKernel launched_kernel(CUfunction function, CUcontext context);

} // namespace softcuda
