// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The kernels of this library in a context. The build compiles them to PTX, and the driver compiles
// that for the GPU when it loads a kernel.
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

// Whether this build has kernels; if not, why_not_built() gives the reason in one line.
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

    // The first call for a name loads that kernel. This takes some 30 ms if the driver has not
    // compiled it before (it keeps the result on disk), and may wait for work in the context.
    // Throws cuda::Error, and std::runtime_error in a build without kernels.
    CUfunction function(std::string_view name);

    // Launches a kernel whose one parameter is `arguments`, with enough threads to process `items`
    // if each takes `at_once`. Throws cuda::Error. Calls CUDA once. The context must be current,
    // unless the stream belongs to it.
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
