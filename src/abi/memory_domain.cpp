// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The answers of a memory domain without a capability.
#include "abi/memory_domain.hpp"

#include "abi/processor_puts.hpp"
#include "abi/settings.hpp"
#include "log/log.hpp"

namespace gdr::abi {

MemoryDomain::MemoryDomain() : serves_protocols_v2_(protocols_v2())
{
    if (!serves_protocols_v2_) {
        look_for_processor_puts();
    }
}

ucs_status_t MemoryDomain::alloc(size_t*, void**, ucs_memory_type_t, uct_mem_h*)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t MemoryDomain::free(uct_mem_h)
{
    return UCS_ERR_UNSUPPORTED;
}

std::optional<MemoryInfo> MemoryDomain::query(const void*, size_t)
{
    return std::nullopt;
}

Dmabuf MemoryDomain::export_dmabuf(const void*, size_t)
{
    return {};
}

ucs_status_t refuse_rkey()
{
    gdr_log(error, "a remote key was refused: another version of gdr packed it (use one version on "
                   "all hosts), or the program passed UCX something else than a key");
    return UCS_ERR_INVALID_PARAM;
}

} // namespace gdr::abi
