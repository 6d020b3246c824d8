// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A registration only remembers its range; an unpacked key is a Region.
#include "ipc/memory_domain.hpp"

#include "abi/completion.hpp"
#include "cuda/driver.hpp"
#include "ipc/process.hpp"
#include "ipc/registration.hpp"
#include "ipc/remote_memory.hpp"

#include <cstring>

namespace gdr::ipc {

MemoryDomain::MemoryDomain(const cuda::Driver& driver, const MdSettings& settings)
    : exports_(driver)
{
    RemoteMemory::instance().enter(settings.cache_size);
}

MemoryDomain::~MemoryDomain()
{
    if (cuda::open_driver() != nullptr) { // in a forked child nothing is open
        RemoteMemory::instance().leave();
    }
}

abi::MdAttributes MemoryDomain::attributes() const
{
    abi::MdAttributes attributes;
    attributes.flags = UCT_MD_FLAG_REG | UCT_MD_FLAG_NEED_RKEY | UCT_MD_FLAG_INVALIDATE;
    attributes.reg_mem_types = UCS_BIT(UCS_MEMORY_TYPE_CUDA);
    attributes.access_mem_types = UCS_BIT(UCS_MEMORY_TYPE_CUDA);
    attributes.max_reg = SIZE_MAX;
    attributes.rkey_packed_size = sizeof(RemoteKey);
    return attributes;
}

ucs_status_t MemoryDomain::reg(void* address, size_t length, abi::Registration, uct_mem_h* memh)
{
    *memh = make_registration(address, length);
    return UCS_OK;
}

ucs_status_t MemoryDomain::dereg(uct_mem_h memh, uct_completion_t* invalidated)
{
    give_up(static_cast<Registration*>(memh));
    abi::complete(invalidated, UCS_OK);
    return UCS_OK;
}

ucs_status_t MemoryDomain::pack_rkey(uct_mem_h memh, const void*, size_t, void* buffer)
{
    const auto* registration = static_cast<Registration*>(memh);
    RemoteKey key;
    if (cuda::open_driver() !=
        nullptr) { // else this is a forked child, in which CUDA does not work
        key = exports_.key_of(registration->address, registration->length);
    }
    memcpy(buffer, &key, sizeof(key));
    return UCS_OK;
}

ucs_status_t unpack_rkey(const void* buffer, uct_rkey_t* rkey, void** handle)
{
    RemoteKey key;
    memcpy(&key, buffer, sizeof(key));
    if (key.magic != kRemoteKeyMagic || key.version != kRemoteKeyVersion ||
        key.sharing > Sharing::fabric || key.reserved != 0) {
        return abi::refuse_rkey();
    }
    const cuda::Driver* driver = cuda::initialised_driver();
    if (driver == nullptr || key.sharing == Sharing::none || key.owner == this_process().id) {
        return UCS_ERR_UNREACHABLE;
    }
    Region* region = RemoteMemory::instance().acquire(*driver, key);
    if (region == nullptr) {
        return UCS_ERR_UNREACHABLE;
    }
    *handle = region;
    *rkey = reinterpret_cast<uct_rkey_t>(region);
    return UCS_OK;
}

void release_rkey(uct_rkey_t, void* handle)
{
    if (cuda::open_driver() != nullptr) {
        RemoteMemory::instance().release(static_cast<Region*>(handle));
    }
}

} // namespace gdr::ipc
