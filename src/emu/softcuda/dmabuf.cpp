// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Export of device memory as a dmabuf.
#include "emu/softcuda/context.hpp"
#include "emu/softcuda/handle.hpp"
#include "emu/softcuda/memory.hpp"
#include "emu/softcuda/softcuda.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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
        require(allocation.on_device() && allocation.kind != Kind::ipc);
        require(allocation.kind != Kind::pool || address == allocation.mapped_at());
        require(allocation.kind != Kind::device || current_context() != nullptr,
                CUDA_ERROR_INVALID_CONTEXT);
        MemoryName name =
            name_memory(allocation.extent, allocation.device, allocation.rdma_capable);
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
        constexpr unsigned long long kPcieBar = 1; // CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE
        require(flags != kPcieBar, CUDA_ERROR_NOT_SUPPORTED);
        require(flags == 0);
        require(length > 0 && address % kPage == 0 && length % kPage == 0);
        std::vector<MemoryName> names = name_range(address, length);
        int fd = create_file(FileType::dmabuf, length, names);
        std::memcpy(handle, &fd, sizeof(fd));
    });
}

SOFTCUDA_EXPORT void* softcuda_dmabuf_map(int fd)
{
    std::vector<MemoryName> names = read_file(fd, FileType::dmabuf);
    size_t length = 0;
    for (const MemoryName& name : names) {
        length += name.length;
    }
    if (length == 0) {
        errno = EBADF;
        return nullptr;
    }
    void* range =
        mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) {
        return nullptr;
    }
    char* next = static_cast<char*>(range);
    for (const MemoryName& name : names) {
        int memory = open_memory(name);
        void* mapped = memory < 0 ? MAP_FAILED
                                  : mmap(next, name.length, PROT_READ | PROT_WRITE,
                                         MAP_SHARED | MAP_NORESERVE | MAP_FIXED, memory,
                                         static_cast<off_t>(name.offset));
        int error = errno;
        if (memory >= 0) {
            close(memory);
        }
        if (mapped == MAP_FAILED) {
            munmap(range, length);
            errno = error;
            return nullptr;
        }
        next += name.length;
    }
    return range;
}
