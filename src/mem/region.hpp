// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// One registration of memory, with an HCA or for the CPU, shared by all users of that memory.
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

// Who may access the memory through its registration. A registration may grant more than requested.
enum class Access : uint8_t {
    local = 0,  // transfers of this side: sends, receives, the near end of reads and writes
    remote = 1, // peers too, by reads, writes and atomics
};

// The result of a registrar: mr or mapping. relaxed: a second registration of the same memory, if
// it pays, with PCIe relaxed ordering. Only this side's transfers use it, because a completion
// tells their end. Peers never get its key, because they may write a flag after the data.
struct Registration {
    verbs::MemoryRegion mr;
    cuda::CpuMapping mapping;
    verbs::MemoryRegion relaxed{};

    explicit operator bool() const { return mr != nullptr || mapping; }
};

// The storage of regions never returns to the system and is reused only for other regions: a thread
// with an outdated pointer may look at it and notices (see Cache).
struct Region : Registration {
    std::atomic<uint32_t> references{0}; // the cache holds one while the region can be found
    std::atomic<bool> valid{false};      // the region may be handed out again

    // Constant while references > 0:
    uint64_t owner_id = 0;
    uintptr_t start = 0; // usable range: [start, end)
    uintptr_t end = 0;
    uint32_t lkey = 0;
    uint32_t rkey = 0;
    MemoryKind kind = MemoryKind::host;
    Access access = Access::remote;
    bool read_only = false; // host memory that could be registered for reading only
    BufferIds buffer_ids;   // device: the allocations in the region
    // The memory may be freed (device) or become writable (host, read_only) unseen. Users that keep
    // the region between uses, as UCP's cache does, must call Cache::current() before using it
    // again.
    bool changes_unseen = false;
    Cache* cache = nullptr;

    // Called when peers can no longer access the memory. The cache's lock protects the list until
    // references is 0.
    struct Notification {
        void (*call)(void* arg);
        void* arg;
    };
    std::vector<Notification> on_unreachable;

    // Holds a reference: the region for holders of this one, whose memory has changed.
    std::atomic<Region*> successor{nullptr};

    bool covers(uintptr_t address, size_t length) const
    {
        return address >= start && address <= end && length <= end - address;
    }
};

} // namespace gdr::mem
