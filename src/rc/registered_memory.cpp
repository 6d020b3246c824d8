// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Mapping and registering an interface's own buffers.
#include "rc/registered_memory.hpp"

#include "verbs/error.hpp"

#include <cerrno>
#include <string>
#include <sys/mman.h>

namespace gdr::rc {

void RegisteredMemory::Unmap::operator()(std::byte* data) const
{
    munmap(data, size);
}

RegisteredMemory::RegisteredMemory(ibv_pd* pd, size_t size)
{
    void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
        throw verbs::Error("mapping " + std::to_string(size) + " bytes for buffers", errno);
    }
    data_ = {static_cast<std::byte*>(data), Unmap{size}};
    (void)madvise(data, size,
                  MADV_HUGEPAGE); // a hint: without it the buffers only cost more TLB entries
    mr_.reset(ibv_reg_mr(pd, data, size, IBV_ACCESS_LOCAL_WRITE));
    if (!mr_) {
        int error = errno;
        throw verbs::Error(
            "ibv_reg_mr of " + std::to_string(size) + " bytes for buffers on " +
                ibv_get_device_name(pd->context->device) +
                (error == ENOMEM ? " (limit of locked memory too small? see ulimit -l)" : ""),
            error);
    }
}

} // namespace gdr::rc
