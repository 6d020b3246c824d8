// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Keys of lists of keys, see key_list.hpp.
#include "emu/softhca/key_list.hpp"

#include "emu/softhca/memory.hpp"

#include <algorithm>

namespace softhca {

KeyList::KeyList(ibv_pd& pd, const Range& range, std::span<const KeyEntry> entries)
    : pd_(pd), index_(process().mr_indices.allocate()), bytes_(entries.size_bytes())
{
    if (index_ == kNone) {
        throw std::bad_alloc();
    }
    try {
        offset_ = process().allocate(bytes_);
    } catch (const std::bad_alloc&) {
        process().mr_indices.release(index_);
        throw;
    }
    Arena& arena = process().arena();
    for (std::size_t i = 0; i < entries.size(); ++i) {
        *arena.at<KeyEntry>(offset_, i) = entries[i];
    }
    MrShared& list = arena.mrs[index_];
    list.access = range.access;
    list.describe({range.iova, range.length, 0});
    list.pd = object_of<Pd>(&pd).id;
    list.window = kNoWindow;
    list.kind = MemoryKind::keys;
    list.keys = {offset_, static_cast<std::uint32_t>(entries.size()),
                 static_cast<std::uint8_t>(range.log_piece)};
    key_ = process().next_key(index_, range.low);
    list.key.store(key_, std::memory_order_release);
    object_of<Pd>(&pd).children.fetch_add(1);
}

KeyList::~KeyList()
{
    if (is_stale(pd_.context)) {
        return;
    }
    Arena& arena = process().arena();
    MrShared& list = arena.mrs[index_];
    list.key.store(0, std::memory_order_release);
    arena.deregistrations.fetch_add(1);
    process().await_peers();
    list.forget();
    process().release(offset_, bytes_);
    process().mr_indices.release(index_);
    object_of<Pd>(&pd_).children.fetch_sub(1);
}

bool append_listed(Arena& arena, const MrShared& list, std::uint64_t address, std::uint64_t length,
                   std::uint32_t access, SegmentList& segments)
{
    constexpr std::uint32_t writes =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    const std::uint32_t needed = (access & writes) != 0 ? IBV_ACCESS_LOCAL_WRITE : 0;
    const Extent extent = list.extent; // others may change it meanwhile, and the table
    const KeyTable table = list.keys;
    std::uint64_t offset = address - extent.iova;
    if (extent.checksum() != list.checksum || offset > extent.length ||
        length > extent.length - offset) {
        return false;
    }
    const std::uint64_t piece = std::uint64_t{1} << table.log_piece % 64;
    while (length != 0) {
        if (offset / piece >= table.count) {
            return false;
        }
        const KeyEntry entry = *arena.at<KeyEntry>(table.entries, offset / piece);
        const std::uint64_t start = entry.address + offset % piece;
        const std::uint64_t here = std::min(length, piece - offset % piece);
        const MrShared* region = find_region(arena, entry.key, start, here, needed, list.pd);
        if (region == nullptr || region->kind == MemoryKind::keys ||
            !segments.append(*region, start, here)) {
            return false;
        }
        offset += here;
        length -= here;
    }
    return true;
}

} // namespace softhca
