// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The kernels of this library in a context: compiled at build time to PTX, which the driver
// compiles for the GPU when a module is loaded.
#pragma once

#include "cuda/driver.hpp"

#include <mutex>
#include <string>

namespace gdr::kernels {

// PTX, or nullptr in a build without clang.
extern const char* const pack_ptx;
extern const char* const reduce_ptx;

// Whether this build has kernels; if not, why in one line.
bool built();
std::string why_not_built();

// Some kernels in one context. Any thread.
class Module {
  public:
    Module(const cuda::Driver& driver, CUcontext context, const char* ptx);
    Module(const Module&) = delete;
    Module& operator=(const Module&) = delete;
    ~Module();

    const cuda::Driver& driver() const { return driver_; }
    CUcontext context() const { return context_; }

    // The first call loads the module, which takes tens of milliseconds where the driver has not
    // compiled it before (it keeps the result on disk), and may wait for work in the context.
    // Throws cuda::Error, and std::runtime_error in a build without kernels.
    CUfunction function(const std::string& name);

    // Launches a kernel whose one parameter is `arguments`, by as many threads as make `items` with
    // `at_once` each. Throws cuda::Error. Calls CUDA once; the context must be current unless it is
    // a stream's own.
    template <typename Arguments>
    void launch(CUfunction kernel, uint64_t items, uint32_t at_once, const Arguments& arguments,
                CUstream stream) const
    {
        launch(kernel, items, at_once, static_cast<const void*>(&arguments), stream);
    }

  private:
    void launch(CUfunction kernel, uint64_t items, uint32_t at_once, const void* arguments,
                CUstream stream) const;

    const cuda::Driver& driver_;
    const CUcontext context_;
    const char* const ptx_;
    std::mutex mutex_;
    CUmodule module_ = nullptr;
};

} // namespace gdr::kernels
