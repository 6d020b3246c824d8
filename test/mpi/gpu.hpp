// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// GPU memory for the MPI programs. libcuda.so.1 is opened at run time: a process without one ends
// with the status 77 where it asks for a function of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include <cuda.h>
#include <dlfcn.h>

namespace gpu {

// The driver's function of that name.
template <class Function>
Function driver(const char* name)
{
    static void* library = dlopen("libcuda.so.1", RTLD_NOW);
    void* function = library == nullptr ? nullptr : dlsym(library, name);
    if (function == nullptr) {
        std::fprintf(stderr, "no CUDA driver: %s\n", dlerror());
        std::exit(77);
    }
    return reinterpret_cast<Function>(function);
}

inline void check(CUresult result)
{
    if (result != CUDA_SUCCESS) {
        std::fprintf(stderr, "CUDA error %d\n", result);
        std::exit(1);
    }
}

// Whether there is a GPU to use().
inline bool exists()
{
    return driver<CUresult (*)(unsigned)>("cuInit")(0) == CUDA_SUCCESS;
}

// Whether the driver is the emulated one.
inline bool emulated()
{
    static void* library = dlopen("libcuda.so.1", RTLD_NOW);
    return library != nullptr && dlsym(library, "softcuda_calls") != nullptr;
}

// Makes the primary context of that GPU, of as many as there are, in turn, current in this thread.
// The process ends with 77 where there is none.
inline void use(int device = 0)
{
    int gpus = 0;
    if (!exists()) {
        std::exit(77);
    }
    check(driver<CUresult (*)(int*)>("cuDeviceGetCount")(&gpus));
    if (gpus == 0) {
        std::exit(77);
    }
    CUcontext context;
    check(driver<CUresult (*)(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain")(&context,
                                                                                 device % gpus));
    check(driver<CUresult (*)(CUcontext)>("cuCtxSetCurrent")(context));
}

// The rank, before MPI_Init, as Open MPI and MPICH tell it.
inline int rank_in_job()
{
    for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
        if (const char* rank = std::getenv(variable)) {
            return std::atoi(rank);
        }
    }
    return 0;
}

// nullptr where there is not so much left.
inline void* try_to_allocate(size_t bytes)
{
    CUdeviceptr address = 0;
    driver<CUresult (*)(CUdeviceptr*, size_t)>("cuMemAlloc_v2")(&address, bytes);
    return reinterpret_cast<void*>(address);
}

inline void* allocate(size_t bytes)
{
    void* const memory = try_to_allocate(bytes);
    check(memory == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
    return memory;
}

inline void free(void* memory)
{
    driver<CUresult (*)(CUdeviceptr)>("cuMemFree_v2")(reinterpret_cast<CUdeviceptr>(memory));
}

// Between host and GPU memory, in any direction.
inline void copy(void* to, const void* from, size_t bytes)
{
    static auto* const function =
        driver<CUresult (*)(CUdeviceptr, CUdeviceptr, size_t)>("cuMemcpy");
    check(function(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes));
}

// A stream of the current context that waits until release().
class WaitingStream {
  public:
    WaitingStream()
    {
        void* memory = nullptr;
        check(driver<CUresult (*)(void**, size_t, unsigned)>("cuMemHostAlloc")(
            &memory, sizeof(*word_), CU_MEMHOSTALLOC_DEVICEMAP));
        word_ = new (memory) std::atomic<uint32_t>(0);
        CUdeviceptr address = 0;
        check(driver<CUresult (*)(CUdeviceptr*, void*, unsigned)>("cuMemHostGetDevicePointer_v2")(
            &address, memory, 0));
        check(driver<CUresult (*)(CUstream*, unsigned)>("cuStreamCreate")(&stream_,
                                                                          CU_STREAM_NON_BLOCKING));
        check(driver<CUresult (*)(CUstream, CUdeviceptr, uint32_t, unsigned)>(
            "cuStreamWaitValue32_v2")(stream_, address, 1, CU_STREAM_WAIT_VALUE_GEQ));
    }
    void release() { word_->store(1); }
    CUstream get() const { return stream_; }

  private:
    std::atomic<uint32_t>* word_ = nullptr;
    CUstream stream_ = nullptr;
};

// Bytes in host or GPU memory.
class Bytes {
  public:
    Bytes(std::vector<char> bytes, bool on_gpu) : bytes_(std::move(bytes))
    {
        if (!on_gpu) {
            return;
        }
        device_ = allocate(bytes_.size() + 1); // no memory is of no bytes
        copy(device_, bytes_.data(), bytes_.size());
    }
    Bytes(const Bytes&) = delete;
    Bytes& operator=(const Bytes&) = delete;
    ~Bytes()
    {
        if (device_ != nullptr) {
            free(device_);
        }
    }

    void* data() { return device_ != nullptr ? device_ : bytes_.data(); }

    // As they are now.
    const std::vector<char>& bytes()
    {
        if (device_ != nullptr) {
            copy(bytes_.data(), device_, bytes_.size());
        }
        return bytes_;
    }

  private:
    std::vector<char> bytes_;
    void* device_ = nullptr;
};

} // namespace gpu
