// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// CUDA results as text and as exceptions. Any thread.
#pragma once

#include <cuda.h>

#include <stdexcept>
#include <string>

namespace gdr::cuda {

struct Driver;

// "CUDA_ERROR_INVALID_VALUE (invalid argument)", or "CUresult 1" if the driver does not know the
// code.
std::string error_text(const Driver& driver, CUresult result);
// The same with the loaded driver, or the bare number without one. In a forked child the text says
// that CUDA does not work there.
std::string error_text(CUresult result);

// A failed call; what() is "<call>: <error_text>".
class Error : public std::runtime_error {
  public:
    Error(CUresult result, const char* call);
    CUresult result() const { return result_; }

  private:
    CUresult result_;
};

// Throws Error unless result is CUDA_SUCCESS. call: the name of the function.
inline void check(CUresult result, const char* call)
{
    if (result != CUDA_SUCCESS) {
        throw Error(result, call);
    }
}

} // namespace gdr::cuda
