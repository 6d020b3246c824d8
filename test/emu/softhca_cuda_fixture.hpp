// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A CUDA driver as a program loads one, with device memory of every kind: softcuda of this build,
// or the driver that SOFTHCA_TEST_LIBCUDA names.
#pragma once

#include <cstdlib>
#include <string>

#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

// cuda.h renames functions to their versions; the names are looked up as renamed.
#define CUDA_SYMBOL_NAME(function) #function
#define CUDA_CALL(cuda, function) (cuda).call<decltype(&function)>(CUDA_SYMBOL_NAME(function))
#define EXPECT_CUDA(call) EXPECT_EQ(call, CUDA_SUCCESS)

enum class Kind {
    host,
    device,
    small, // part of a page that the driver shares out
    pool,
    vmm,
    vmm_private, // cannot be exported
    managed,
};

struct Cuda {
    static bool is_real() { return getenv("SOFTHCA_TEST_LIBCUDA") != nullptr; }

    // Without a context where there is no such device.
    explicit Cuda(int ordinal = 0) : device(ordinal)
    {
        const char* build = getenv("top_builddir");
        const std::string path = is_real() ? getenv("SOFTHCA_TEST_LIBCUDA")
                                           : std::string(build == nullptr ? "." : build) +
                                                 "/src/emu/softcuda/.libs/libcuda.so.1";
        library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
        if (library == nullptr) {
            ADD_FAILURE() << dlerror();
            return;
        }
        EXPECT_CUDA(CUDA_CALL(*this, cuInit)(0));
        int count = 0;
        EXPECT_CUDA(CUDA_CALL(*this, cuDeviceGetCount)(&count));
        if (device < count) {
            EXPECT_CUDA(CUDA_CALL(*this, cuDevicePrimaryCtxRetain)(&context, device));
            EXPECT_CUDA(CUDA_CALL(*this, cuCtxSetCurrent)(context));
        }
    }

    template <class Function>
    Function call(const char* name) const
    {
        void* function = dlsym(library, name);
        EXPECT_NE(function, nullptr) << name;
        return reinterpret_cast<Function>(function);
    }

    CUdeviceptr allocate(std::size_t size, Kind kind = Kind::device) const
    {
        CUdeviceptr pointer = 0;
        switch (kind) {
        case Kind::pool:
            EXPECT_CUDA(CUDA_CALL(*this, cuMemAllocAsync)(&pointer, size, CU_STREAM_LEGACY));
            synchronize();
            break;
        case Kind::vmm:
        case Kind::vmm_private:
            return map(size, kind == Kind::vmm);
        case Kind::managed:
            EXPECT_CUDA(CUDA_CALL(*this, cuMemAllocManaged)(&pointer, size, CU_MEM_ATTACH_GLOBAL));
            break;
        default:
            EXPECT_CUDA(CUDA_CALL(*this, cuMemAlloc)(&pointer, size));
        }
        return pointer;
    }

    void release(CUdeviceptr pointer) const { EXPECT_CUDA(CUDA_CALL(*this, cuMemFree)(pointer)); }

    // Both have their bytes in place on return.
    void put(CUdeviceptr to, const void* from, std::size_t size) const
    {
        EXPECT_CUDA(CUDA_CALL(*this, cuMemcpyHtoD)(to, from, size));
        synchronize();
    }
    void get(void* to, CUdeviceptr from, std::size_t size) const
    {
        EXPECT_CUDA(CUDA_CALL(*this, cuMemcpyDtoH)(to, from, size));
    }

    void synchronize() const
    {
        EXPECT_CUDA(CUDA_CALL(*this, cuStreamSynchronize)(CU_STREAM_LEGACY));
    }

    // A dmabuf of the pages that hold the range, from `start` on: of a pool's memory, all pages
    // before it too.
    int export_pages(CUdeviceptr pointer, std::size_t size, CUdeviceptr& start) const
    {
        constexpr auto mapping_base = static_cast<CUpointer_attribute>(19);
        CUmemoryPool pool = nullptr;
        start = pointer & ~CUdeviceptr{4095};
        if (CUDA_CALL(*this, cuPointerGetAttribute)(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                                                    pointer) == CUDA_SUCCESS &&
            pool != nullptr) {
            EXPECT_CUDA(CUDA_CALL(*this, cuPointerGetAttribute)(&start, mapping_base, pointer));
        }
        const std::size_t length = ((pointer + size + 4095) & ~CUdeviceptr{4095}) - start;
        int fd = -1;
        EXPECT_CUDA(CUDA_CALL(*this, cuMemGetHandleForAddressRange)(
            &fd, start, length, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
        return fd;
    }

    const int device;
    void* library;
    CUcontext context = nullptr;

  private:
    CUdeviceptr map(std::size_t size, bool exportable) const
    {
        CUmemAllocationProp properties = {};
        properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
        properties.allocFlags.gpuDirectRDMACapable = 1;
        if (exportable) {
            properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        }
        std::size_t unit = 0;
        EXPECT_CUDA(CUDA_CALL(*this, cuMemGetAllocationGranularity)(
            &unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
        const std::size_t length = (size + unit - 1) / unit * unit;
        CUmemGenericAllocationHandle handle;
        CUdeviceptr pointer = 0;
        EXPECT_CUDA(CUDA_CALL(*this, cuMemCreate)(&handle, length, &properties, 0));
        EXPECT_CUDA(CUDA_CALL(*this, cuMemAddressReserve)(&pointer, length, 0, 0, 0));
        EXPECT_CUDA(CUDA_CALL(*this, cuMemMap)(pointer, length, 0, handle, 0));
        CUmemAccessDesc access = {};
        access.location = properties.location;
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        EXPECT_CUDA(CUDA_CALL(*this, cuMemSetAccess)(pointer, length, &access, 1));
        EXPECT_CUDA(CUDA_CALL(*this, cuMemRelease)(handle));
        return pointer;
    }
};
