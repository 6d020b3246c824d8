// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Exports device memory as a dmabuf.
#include "cuda/dmabuf.hpp"
#include "cuda/allocation.hpp"
#include "cuda/context.hpp"

#include <algorithm>

namespace gdr::cuda {

DmabufExport export_dmabuf(const Driver& driver, const void* address, size_t length,
                           DmabufMapping mapping)
{
    // CUDA exports only whole pages. The driver backs an allocation that ends within a page with
    // the whole page.
    static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    DmabufExport exported;
    auto start = reinterpret_cast<uintptr_t>(address);
    exported.base = start & ~(page - 1);
    exported.length = ((start + length + page - 1) & ~(page - 1)) - exported.base;
    if (driver.cuMemGetHandleForAddressRange == nullptr) {
        exported.result = CUDA_ERROR_NOT_SUPPORTED;
        return exported;
    }
    try {
        // Exporting cuMemAlloc memory fails without a current context.
        Pointer memory = classify(driver, address);
        if (memory.kind == MemoryKind::host) {
            throw Error(CUDA_ERROR_INVALID_VALUE, "host memory");
        }
        CurrentContext current(driver, memory);
        int fd = -1;
        const auto get = [&] {
            return driver.cuMemGetHandleForAddressRange(&fd, exported.base, exported.length,
                                                        CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                                        static_cast<unsigned long long>(mapping));
        };
        CUresult result = get();
        // For pool memory the driver exports only ranges that begin at the start of the pool's
        // mapping.
        if (result == CUDA_ERROR_INVALID_VALUE && memory.kind == MemoryKind::device &&
            memory.context == nullptr) {
            const uintptr_t begin = std::min(mapping_base(driver, address), exported.base);
            exported.length += exported.base - begin;
            exported.base = begin;
            result = get();
        }
        check(result, "cuMemGetHandleForAddressRange");
        exported.fd = UniqueFd(fd);
    } catch (const Error& error) {
        exported.result = error.result();
    }
    return exported;
}

std::string why_no_dmabuf(const Driver& driver, CUdevice device)
{
    if (driver.cuMemGetHandleForAddressRange == nullptr) {
        return "the CUDA driver cannot export dmabufs: it has no cuMemGetHandleForAddressRange "
               "(CUDA 11.7)";
    }
    try {
        int supported = 0;
        check(
            driver.cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, device),
            "cuDeviceGetAttribute(DMA_BUF_SUPPORTED)");
        if (supported == 0) {
            return "the GPU cannot export dmabufs (CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED is 0): "
                   "this needs NVIDIA's open kernel modules and Linux 5.12";
        }
        constexpr size_t kLength = 65536;
        PrimaryContext context(driver, device);
        void* memory = nullptr;
        check(allocate(driver, MemoryKind::device, context.handle(), kLength, &memory),
              "cuMemAlloc");
        CUresult result = export_dmabuf(driver, memory, kLength).result;
        check(release(driver, memory), "cuMemFree");
        check(result, "cuMemGetHandleForAddressRange");
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

} // namespace gdr::cuda
