// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory that kernels name: our own, which they send and receive, and that of peers.
#pragma once

#include "sync/rings/lane.hpp"
#include "sync/rings/use_table.hpp"
#include "sync/ucx-gdr/ugdr_types.h"

#include <cstdint>
#include <vector>

#include <ucp/api/ucp.h>

namespace gdr::sync {

// Mapped by ugdr_mem_map().
struct Memory {
    uint64_t address = 0;
    uint64_t length = 0;
    bool host = false;            // else it is a GPU's; see mem::RdmaWrites about flushes
    std::vector<uint32_t> keys{}; // local keys, by the numbers of our HCAs
};

// Imported by ugdr_rmem_import().
struct RemoteMemory {
    const Lanes* lanes = nullptr; // to its peer
    uint64_t address = 0;
    uint64_t length = 0;
    bool host = false;            // else it is a GPU's
    std::vector<uint32_t> keys{}; // remote keys, by the numbers of the peer's HCAs
    ucp_rkey_h ucp = nullptr;     // of UCP's lanes
};

// What kernels get for a memory: its number in the table and, for memory of the host, a bit by
// which they choose the fence.
constexpr uint32_t id_of(uint32_t number, bool host)
{
    return host ? number | UGDR_MEM_ID_HOST : number;
}
constexpr uint32_t number_of(uint32_t id)
{
    return id & ~(UGDR_MEM_ID_HOST | UGDR_RMEM_ID_NEAR);
}

using Memories = UseTable<Memory>;
using RemoteMemories = UseTable<RemoteMemory>;

// Whether a part is within a memory of this length. Nothing overflows.
constexpr bool is_within(uint64_t memory, uint64_t offset, uint64_t length)
{
    return offset <= memory && length <= memory - offset;
}

} // namespace gdr::sync
