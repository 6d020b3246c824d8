// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Packs and checks remote keys.
#include "rc/remote_key.hpp"

#include "abi/memory_domain.hpp"
#include "rc/connect/address.hpp"

namespace gdr::rc {

void pack(const mem::Region& region, PackedRemoteKey* packed)
{
    *packed = {kRemoteKeyMagic, kWireVersion, region.kind, 0, region.rkey};
}

ucs_status_t unpack(const PackedRemoteKey& packed, uct_rkey_t* key)
{
    if (packed.magic != kRemoteKeyMagic || packed.version != kWireVersion ||
        packed.kind > mem::MemoryKind::device || packed.reserved != 0) {
        return abi::refuse_rkey();
    }
    *key = packed.rkey | static_cast<uint64_t>(packed.kind) << 32;
    return UCS_OK;
}

} // namespace gdr::rc
