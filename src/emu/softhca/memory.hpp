// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory that work requests read and write: what kinds there are, how a range of it becomes
// accessible to the HCA, and how bytes move between two processes. A further kind of memory is
// added here alone: queues and the engine see segments, never what is behind them.
#pragma once

#include "emu/softhca/layout.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace softhca {

// Addresses are those at which the owning process can touch the memory.
struct Segment {
    std::uint64_t address;
    std::uint64_t length;
};

struct SegmentList {
    Segment segments[kMaxSge];
    unsigned count = 0;
    std::uint64_t bytes = 0;
    std::uint64_t device_bytes = 0;

    void append(std::uint64_t address, std::uint64_t length, MemoryKind kind)
    {
        segments[count++] = {address, length};
        bytes += length;
        device_bytes += kind == MemoryKind::host ? 0 : length;
    }
};

// The readable and writable alias of a range of an emulated GPU's memory; empty for any other.
std::optional<std::uint64_t> device_alias(const void* address, std::size_t length);

// All memory behind a dmabuf of `size` bytes, mapped for as long as the caller does not munmap it;
// null with errno set. Softcuda's are mapped by softcuda, any other file by mmap.
void* map_dmabuf(int fd, std::size_t size);

// Makes host memory present, as pinning does; 0 or EFAULT.
int populate(const void* address, std::size_t length, bool writable);

// The region a key names, if [address, address + length) lies in it and it grants `access` (all
// bits) in this protection domain; else null. Zero bytes may be asked of no region at all. Windows
// are found only for remote access through a QP: its number.
inline const MrShared* find_region(Arena& arena, std::uint32_t key, std::uint64_t address,
                                   std::uint64_t length, std::uint32_t access, std::uint32_t pd,
                                   std::uint32_t qp_number = 0)
{
    const MrShared& region = arena.mrs[key_index(key)];
    if (key == 0 || region.key.load(std::memory_order_acquire) != key || region.pd != pd ||
        (region.access & access) != access || address < region.iova || length > region.length ||
        address - region.iova > region.length - length ||
        (region.window != kNoWindow &&
         (qp_number == 0 || (region.window != kAnyQp && region.window != qp_number)))) {
        return nullptr;
    }
    return &region;
}

// Where the process owning the region touches an address of it.
inline std::uint64_t translate(const MrShared& region, std::uint64_t address)
{
    return region.address + (address - region.iova);
}

enum class Moved { done, fault, gone };

// Copies source.bytes bytes. One side may belong to another process: its id, else 0.
Moved move(const SegmentList& source, int source_pid, const SegmentList& target, int target_pid);

// Between memory of this process and a list of it; at most list.bytes bytes.
void gather(void* target, const SegmentList& source);
void scatter(const SegmentList& target, const void* source, std::size_t length);

// System calls made by move() in this process so far.
std::uint64_t move_system_calls();

} // namespace softhca
