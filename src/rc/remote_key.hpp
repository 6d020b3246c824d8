// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The key by which we access a peer's memory through its HCA: packed for the wire, and unpacked
// into the 64 bits of a uct_rkey_t.
#pragma once

#include "mem/region.hpp"

extern "C" {
#include <uct/api/uct.h>
}

namespace gdr::rc {

inline constexpr uint32_t kRemoteKeyMagic = 0x4b524447; // "GDRK"

struct [[gnu::packed]] PackedRemoteKey {
    uint32_t magic;
    uint8_t version;
    mem::MemoryKind kind;
    uint16_t reserved;
    uint32_t rkey;
};

// uct_rkey_t: bits 0-31 are the verbs rkey, bit 32 the kind of memory.
inline uint32_t verbs_rkey(uct_rkey_t key)
{
    return static_cast<uint32_t>(key);
}
inline unsigned memory_kind(uct_rkey_t key)
{
    return static_cast<unsigned>(key >> 32) & 1; // masked, because a caller may pass any key
}

void pack(const mem::Region& region, PackedRemoteKey* packed);

// UCS_ERR_INVALID_PARAM and one line in the log if the buffer is not one of our keys.
ucs_status_t unpack(const PackedRemoteKey& packed, uct_rkey_t* key);

} // namespace gdr::rc
