// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Modules: the kernels that a program has loaded into a context.
#pragma once

#include "emu/softcuda/ptx.hpp"

/// A kernel of a loaded module.
struct CUfunc_st {
    softcuda::KernelDeclaration declaration;
    CUmodule module;
};

namespace softcuda {

/// A kernel that a launch names, and the context that it is loaded into.
struct LoadedKernel {
    KernelDeclaration declaration;
    CUcontext context;
};

/// Whether there is a function to run in the kernel's place.
bool can_run(const KernelDeclaration& kernel);

/// Throws CUDA_ERROR_INVALID_HANDLE where the function, its module or its context is gone.
LoadedKernel loaded_kernel(CUfunction function);

} // namespace softcuda
