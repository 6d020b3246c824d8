// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory that work requests read and write: what kinds there are, how a range of it becomes
// accessible to the HCA, and how bytes move between two processes. A further kind of memory is
// added here alone: queues and the engine see segments, never what is behind them.
#pragma once

#include "emu/softhca/fabric.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace softhca {

// Addresses are those at which the owning process can touch the memory, or can have the CUDA driver
// copy it.
struct Segment {
    std::uint64_t address;
    std::uint64_t length;
    const MrShared* region; // null: none, host memory

    bool on_cuda() const { return region != nullptr && region->cuda.owner != 0; }
};

struct SegmentList {
    Segment segments[kMaxSge];
    unsigned count = 0;
    std::uint64_t bytes = 0;
    std::uint64_t device_bytes = 0;
    bool on_cuda = false; // any of it

    void append(std::uint64_t address, std::uint64_t length)
    {
        segments[count++] = {address, length, nullptr};
        bytes += length;
    }
    // Of a region, by its iova; false if it is not what was registered.
    bool append(const MrShared& region, std::uint64_t iova, std::uint64_t length)
    {
        const Extent extent = region.extent; // others may change it meanwhile
        const std::uint64_t offset = iova - extent.iova;
        if (extent.checksum() != region.checksum || offset > extent.length ||
            length > extent.length - offset) {
            return false;
        }
        segments[count] = {extent.address + offset, length, &region};
        bytes += length;
        device_bytes += region.kind == MemoryKind::host ? 0 : length;
        on_cuda |= segments[count++].on_cuda();
        return true;
    }
};

// A range of an emulated GPU's memory, mapped until unmap(); null with errno set. EFAULT: it is
// not that, or SOFTHCA_DEVICE_COPY wants no alias.
void* map_peer(const void* address, std::size_t length);

// All memory behind a dmabuf of `size` bytes, mapped until unmap(); null with errno set. Softcuda's
// are mapped by softcuda, any other file by mmap, which a GPU's refuse.
void* map_dmabuf(int fd, std::size_t size);
bool is_c2c_dmabuf(int fd); // one of softcuda's

void unmap(void* mapping, std::size_t size);

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
        (region.access & access) != access || address < region.extent.iova ||
        length > region.extent.length ||
        address - region.extent.iova > region.extent.length - length ||
        (region.window != kNoWindow &&
         (qp_number == 0 || (region.window != kAnyQp && region.window != qp_number)))) {
        return nullptr;
    }
    return &region;
}

// Appends what a list of keys grants, as find_region() finds a region; false if it does not, or if
// it is more pieces than a request may have.
[[gnu::cold]] bool append_listed(Arena& arena, std::uint32_t key, std::uint64_t address,
                                 std::uint64_t length, std::uint32_t access, std::uint32_t pd,
                                 SegmentList& segments);

// Copies between host memory of this process; each library with this engine has its own way. In
// softhca the program's thread does it, in which it may fail like any other access.
void copy_own(void* to, const void* from, std::size_t length);

enum class Moved { done, fault, gone };

// Copies source.bytes bytes. One side may belong to another process: its id, else 0. Memory that
// only the CUDA driver can copy takes its time: that is for the copier alone.
Moved move(const SegmentList& source, int source_pid, const SegmentList& target, int target_pid);

// Takes two lists apart into pairs of segments of the same length, for all bytes of the source, and
// calls visit(from, to) for each until one is not done.
template <class Visit>
Moved for_each_piece(const SegmentList& source, const SegmentList& target, Visit visit)
{
    unsigned to = 0;
    std::uint64_t to_offset = 0;
    for (unsigned from = 0; from < source.count; ++from) {
        std::uint64_t from_offset = 0;
        while (from_offset < source.segments[from].length) {
            while (to_offset == target.segments[to].length) {
                ++to;
                to_offset = 0;
            }
            const Segment& left = source.segments[from];
            const Segment& right = target.segments[to];
            const std::uint64_t length =
                std::min(left.length - from_offset, right.length - to_offset);
            const Moved moved = visit(Segment{left.address + from_offset, length, left.region},
                                      Segment{right.address + to_offset, length, right.region});
            if (moved != Moved::done) {
                return moved;
            }
            from_offset += length;
            to_offset += length;
        }
    }
    return Moved::done;
}

// Between memory of this process and a list of it; at most list.bytes bytes. False if device memory
// is there no more.
bool gather(void* target, const SegmentList& source);
bool scatter(const SegmentList& target, const void* source, std::size_t length);

// System calls made by move() in this process so far.
std::uint64_t move_system_calls();

} // namespace softhca
