// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// One registration of memory, with an HCA or for the CPU, shared by everybody who uses that memory.
#pragma once

#include "cuda/gdrcopy.hpp"
#include "mem/buffer_ids.hpp"
#include "verbs/handles.hpp"

#include <atomic>
#include <cstdint>
#include <vector>

namespace gdr::mem {

class Cache;

enum class MemoryKind : uint8_t { host = 0, device = 1 };

// Who may touch the memory by its registration. More than what was asked for serves as well.
enum class Access : uint8_t {
    local = 0,  // transfers of this side: sends, receives, the near end of reads and writes
    remote = 1, // peers too, by reads, writes and atomics
};

// What a registrar makes: one of the first two. relaxed: where it pays, the same memory once more,
// with relaxed ordering of PCIe and for this side's transfers alone, whose end a completion tells.
// Peers never have its key: they may put a flag behind data.
struct Registration {
    verbs::MemoryRegion mr;
    cuda::CpuMapping mapping;
    verbs::MemoryRegion relaxed{};

    explicit operator bool() const { return mr != nullptr || mapping; }
};

// Storage of regions is never returned to the system, only used again for other regions: a thread
// that holds an outdated pointer may look, and finds out (see Cache).
struct Region : Registration {
    std::atomic<uint32_t> references{0}; // the cache holds one while the region can be found
    std::atomic<bool> valid{false};      // may be handed out again

    // Constant while references > 0:
    uint64_t owner_id = 0;
    uintptr_t start = 0; // what may be asked for: [start, end)
    uintptr_t end = 0;
    uint32_t lkey = 0;
    uint32_t rkey = 0;
    MemoryKind kind = MemoryKind::host;
    Access access = Access::remote;
    bool read_only = false; // host memory that could be registered for reading only
    BufferIds buffer_ids;   // device: of the allocations in it
    // The memory may be freed (device), or become writable (host, read_only), without a word. Who
    // uses the region again, having held it meanwhile as UCP's cache does, asks Cache::current().
    bool changes_unseen = false;
    Cache* cache = nullptr;

    // Called when the memory can no longer be reached (under the owner's lock until references is
    // 0).
    struct Notification {
        void (*call)(void* arg);
        void* arg;
    };
    std::vector<Notification> on_unreachable;

    // With a reference: what serves holders of this one, the memory of which has changed.
    std::atomic<Region*> successor{nullptr};

    bool covers(uintptr_t address, size_t length) const
    {
        return address >= start && address <= end && length <= end - address;
    }
};

} // namespace gdr::mem
