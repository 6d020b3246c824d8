// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Texts of CUDA results, from the driver's own tables.
#include "cuda/error.hpp"
#include "cuda/driver.hpp"

namespace gdr::cuda {

namespace {

std::string number(CUresult result)
{
    return "CUresult " + std::to_string(result);
}

} // namespace

std::string error_text(const Driver& driver, CUresult result)
{
    const char* name = nullptr;
    const char* description = nullptr;
    if (driver.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) {
        return number(result);
    }
    std::string text = name;
    if (driver.cuGetErrorString(result, &description) == CUDA_SUCCESS && description != nullptr) {
        text.append(" (").append(description).append(")");
    }
    return text;
}

std::string error_text(CUresult result)
{
    if (in_forked_child()) {
        return unavailable_reason();
    }
    const Driver* loaded = open_driver();
    return loaded != nullptr ? error_text(*loaded, result) : number(result);
}

Error::Error(CUresult result, const char* call)
    : std::runtime_error(std::string(call) + ": " + error_text(result)), result_(result)
{
}

} // namespace gdr::cuda
