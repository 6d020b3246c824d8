// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Maps and registers an interface's own buffers.
#include "rc/queues/registered_memory.hpp"

#include "log/log.hpp"
#include "mem/locked_memory.hpp"
#include "verbs/error.hpp"
#include "verbs/relaxed_ordering.hpp"

#include <algorithm>
#include <cerrno>
#include <string>
#include <sys/mman.h>

namespace gdr::rc {

std::string cause_of(const std::exception& error)
{
    const auto* failed_call = dynamic_cast<const verbs::Error*>(&error);
    return error.what() +
           mem::locked_memory_hint(failed_call != nullptr ? failed_call->error_number() : 0);
}

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
                  MADV_HUGEPAGE); // a hint: without it the buffers only take more TLB entries
    constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE; // the macro mixes it with another enumeration
    mr_ = verbs::register_memory(pd, kAccess,
                                 [&](int access) { return ibv_reg_mr(pd, data, size, access); });
    if (!mr_) {
        const int error = errno;
        throw verbs::Error("ibv_reg_mr of " + std::to_string(size) + " bytes for buffers on " +
                               ibv_get_device_name(pd->context->device),
                           error);
    }
}

RegisteredMemory RegisteredMemory::for_as_many(ibv_pd* pd, size_t piece, unsigned fewest,
                                               unsigned* count, const char* what,
                                               const char* variable)
{
    std::string cause;
    for (const unsigned wanted = *count;; *count /= 2) {
        try {
            RegisteredMemory memory(pd, piece * *count);
            if (*count == wanted) {
                return memory;
            }
            // Leave half of it, because the user's memory must be registered too.
            *count = std::max(*count / 2, fewest);
            gdr_log(warn,
                    "only %u of %u %s can be registered, with which many messages at a time are "
                    "slower: %s. %s=%u asks for no more",
                    *count, wanted, what, cause.c_str(), variable, *count);
            memory = RegisteredMemory();
            return RegisteredMemory(pd, piece * *count);
        } catch (const verbs::Error& error) {
            if (error.error_number() != ENOMEM || *count / 2 < fewest) {
                throw;
            }
            cause = cause_of(error);
        }
    }
}

} // namespace gdr::rc
