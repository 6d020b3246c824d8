// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Finding the functions of a loaded CUDA driver, see cuda_driver.hpp.
#include "emu/softhca/cuda_driver.hpp"

#include <atomic>
#include <mutex>

#include <dlfcn.h>

namespace softhca {
namespace {

bool fill(CudaDriver& driver)
{
// The argument's macros are expanded before it becomes a string: "cuMemcpyAsync",
// "cuCtxPopCurrent_v2".
#define SOFTHCA_CUDA_NAME(function) #function
#define SOFTHCA_CUDA_LOOK_UP(function)                                                             \
    driver.function =                                                                              \
        reinterpret_cast<decltype(driver.function)>(find_in_libcuda(SOFTHCA_CUDA_NAME(function))); \
    if (driver.function == nullptr) {                                                              \
        return false;                                                                              \
    }
    SOFTHCA_CUDA_FUNCTIONS(SOFTHCA_CUDA_LOOK_UP)
#undef SOFTHCA_CUDA_LOOK_UP
#undef SOFTHCA_CUDA_NAME
    return true;
}

} // namespace

void* find_in_libcuda(const char* name)
{
    // The reference is kept: what was found stays valid.
    void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    return library == nullptr ? nullptr : dlsym(library, name);
}

const CudaDriver* cuda_driver()
{
    static std::atomic<const CudaDriver*> found{nullptr};
    static std::mutex mutex;
    if (const CudaDriver* driver = found.load(std::memory_order_acquire)) {
        return driver;
    }
    const std::lock_guard<std::mutex> guard(mutex);
    static CudaDriver table;
    if (found.load() == nullptr && fill(table)) {
        found.store(&table, std::memory_order_release);
    }
    return found.load();
}

} // namespace softhca
