// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Modules: the kernels that a program has loaded into a context, itself or with a library.
#pragma once

#include "emu/softcuda/library.hpp"
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

/// The kernels of an image. Throws what parse_ptx() does; CUDA_ERROR_NOT_SUPPORTED where there are
/// some and none can run.
std::vector<KernelDeclaration> kernels_of(const void* image);

/// Throws CUDA_ERROR_INVALID_HANDLE where the function, its module or its context is gone.
LoadedKernel loaded_kernel(CUfunction function);

/// The module of a library's kernels in a context that is alive, loaded where it is not yet.
CUmodule module_of(CUlibrary library, const std::vector<KernelDeclaration>& kernels,
                   CUcontext context);

/// In all contexts.
void unload_modules_of(CUlibrary library);

/// The module's kernel of that name. Throws CUDA_ERROR_INVALID_HANDLE where the module is gone, or
/// CUDA_ERROR_NOT_FOUND.
CUfunction function_of(CUmodule module, const std::string& name);

} // namespace softcuda
