// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Export of device memory as a dmabuf.
#include "emu/softcuda/capture.hpp"
#include "emu/softcuda/context.hpp"
#include "emu/softcuda/handle.hpp"
#include "emu/softcuda/memory.hpp"

#include <algorithm>
#include <cstring>

namespace softcuda {

namespace {

/// The names of a page-aligned range, which may run through several allocations.
std::vector<MemoryName> name_range(uintptr_t address, size_t length)
{
    std::vector<Allocation> allocations = find_consecutive(address, length);
    require(!allocations.empty());
    std::vector<MemoryName> names;
    for (const Allocation& allocation : allocations) {
        require(allocation.on_device() && !allocation.imported());
        require(allocation.kind != Kind::pool || address == allocation.mapped_at());
        require(allocation.kind != Kind::device || current_context() != nullptr,
                CUDA_ERROR_INVALID_CONTEXT);
        MemoryName name = name_memory(allocation.extent, device(allocation.device).number(),
                                      allocation.rdma_capable);
        uintptr_t first_page = allocation.mapped_at();
        uintptr_t start = std::max(address, first_page);
        uintptr_t end = std::min(address + length, first_page + name.length);
        name.offset += start - first_page;
        name.length = end - start;
        names.push_back(name);
    }
    return names;
}

} // namespace

} // namespace softcuda

using namespace softcuda;

CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address, size_t length,
                                       CUmemRangeHandleType type, unsigned long long flags)
{
    return api(__func__, Needs::init, [&] {
        require(handle != nullptr && type == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
        constexpr unsigned long long kByPcie = 1; // CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE
        require(flags == 0 || flags == kByPcie);
        require(flags == 0 || has_c2c(), CUDA_ERROR_NOT_SUPPORTED);
        require(length > 0 && address % kPage == 0 && length % kPage == 0);
        require_no_capture();
        std::vector<MemoryName> names = name_range(address, length);
        const bool by_c2c = has_c2c() && flags == 0;
        int fd = create_file(by_c2c ? FileType::c2c_dmabuf : FileType::dmabuf, length, names);
        std::memcpy(handle, &fd, sizeof(fd));
    });
}
