// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The kernels of this library in a context: compiled at build time to PTX, which the driver
// compiles for the GPU when a kernel is loaded.
#pragma once

#include "cuda/driver.hpp"

#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

namespace gdr::kernels {

// A module with one kernel.
struct PtxKernel {
    std::string_view name;
    const char* ptx;
};

// Empty in a build without clang.
extern const std::span<const PtxKernel> pack_ptx;
extern const std::span<const PtxKernel> reduce_ptx;

// Whether this build has kernels; if not, why in one line.
bool built();
std::string why_not_built();

// Some kernels in one context. Any thread.
class LoadedKernels {
  public:
    LoadedKernels(const cuda::Driver& driver, CUcontext context, std::span<const PtxKernel> ptx);
    LoadedKernels(const LoadedKernels&) = delete;
    LoadedKernels& operator=(const LoadedKernels&) = delete;
    ~LoadedKernels();

    const cuda::Driver& driver() const { return driver_; }
    CUcontext context() const { return context_; }

    // The first call for a name loads that kernel, which takes some 30 ms where the driver has not
    // compiled it before (it keeps the result on disk), and may wait for work in the context.
    // Throws cuda::Error, and std::runtime_error in a build without kernels.
    CUfunction function(std::string_view name);

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
    struct Loaded {
        CUmodule module = nullptr;
        CUfunction function = nullptr;
    };

    void launch(CUfunction kernel, uint64_t items, uint32_t at_once, const void* arguments,
                CUstream stream) const;

    const cuda::Driver& driver_;
    const CUcontext context_;
    const std::span<const PtxKernel> ptx_;
    std::mutex mutex_;
    std::map<std::string_view, Loaded> loaded_; // by name
};

} // namespace gdr::kernels
