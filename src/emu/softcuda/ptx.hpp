// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What can be known of a module from its PTX: the kernels' names and parameters. Code is not read.
#pragma once

#include "emu/softcuda/api.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace softcuda {

/// A kernel as the module declares it.
struct KernelDeclaration {
    std::string name;
    struct Parameter {
        size_t offset; // among all parameters
        size_t size;
    };
    std::vector<Parameter> parameters{};
    size_t parameter_bytes = 0;
    int max_threads = 1024; // of a block

    /// Where a parameter is (cuFuncGetParamInfo); size may be nullptr. Throws
    /// CUDA_ERROR_INVALID_VALUE.
    void locate_parameter(size_t index, size_t* offset, size_t* size) const;
};

/// The kernels of a module. Throws CUDA_ERROR_INVALID_IMAGE where it does not begin as PTX does,
/// else CUDA_ERROR_INVALID_PTX; CUDA_ERROR_NO_BINARY_FOR_GPU for code that is compiled already, or
/// for a device newer than the emulated ones.
std::vector<KernelDeclaration> parse_ptx(const char* image);

} // namespace softcuda
