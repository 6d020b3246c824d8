// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory that others may read and write.
#include "remote_memory.hpp"

#include <cstring>

#include "failure.hpp"

namespace ucptest {

ExposedMemory::ExposedMemory(Worker& worker, const Memory& memory)
    : worker_(worker), memory_(memory)
{
    ucp_mem_map_params_t params = {};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    params.address = memory.address();
    params.length = memory.size();
    require_ok(ucp_mem_map(worker.context(), &params, &handle_), "ucp_mem_map");
}

ExposedMemory::~ExposedMemory()
{
    ucp_mem_unmap(worker_.context(), handle_);
}

std::vector<uint8_t> ExposedMemory::packed_rkey() const
{
    void* rkey = nullptr;
    size_t length = 0;
    require_ok(ucp_rkey_pack(worker_.context(), handle_, &rkey, &length), "ucp_rkey_pack");
    const auto* bytes = static_cast<const uint8_t*>(rkey);
    std::vector<uint8_t> copy(bytes, bytes + length);
    ucp_rkey_buffer_release(rkey);
    return copy;
}

std::vector<uint8_t> ExposedMemory::packed() const
{
    const auto address = reinterpret_cast<uint64_t>(memory_.address());
    std::vector<uint8_t> bytes(sizeof(address));
    std::memcpy(bytes.data(), &address, sizeof(address));
    const auto rkey = packed_rkey();
    bytes.insert(bytes.end(), rkey.begin(), rkey.end());
    return bytes;
}

RemoteMemory::RemoteMemory(ucp_ep_h ep, const std::vector<uint8_t>& packed)
{
    require(packed.size() > sizeof(address_), "a packed remote memory is too short");
    std::memcpy(&address_, packed.data(), sizeof(address_));
    require_ok(ucp_ep_rkey_unpack(ep, packed.data() + sizeof(address_), &rkey_),
               "ucp_ep_rkey_unpack");
}

RemoteMemory::~RemoteMemory()
{
    if (rkey_ != nullptr) {
        ucp_rkey_destroy(rkey_);
    }
}

} // namespace ucptest
