// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Keys of lists of keys, see key_list.hpp.
#include "emu/softhca/key_list.hpp"

#include "emu/softhca/memory.hpp"
#include "emu/softhca/work_request.hpp"

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
    list.window = kListOfKeys;
    list.region = kNone;
    list.kind = MemoryKind::host;
    list.cuda = {}; // of what the slot was before
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

bool append_listed(Arena& arena, std::uint32_t key, std::uint64_t address, std::uint64_t length,
                   std::uint32_t access, std::uint32_t pd, SegmentList& segments)
{
    const MrShared& list = arena.mrs[key_index(key)];
    if (key == 0 || list.key.load(std::memory_order_acquire) != key || list.window != kListOfKeys ||
        list.pd != pd || (list.access & access) != access) {
        return false;
    }
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
        if (offset / piece >= table.count || segments.count == kMaxSge) {
            return false;
        }
        const KeyEntry entry = *arena.at<KeyEntry>(table.entries, offset / piece);
        const std::uint64_t start = entry.address + offset % piece;
        const std::uint64_t here = std::min(length, piece - offset % piece);
        const MrShared* region = find_region(arena, entry.key, start, here, needed, pd);
        if (region == nullptr || !segments.append(*region, start, here)) {
            return false;
        }
        offset += here;
        length -= here;
    }
    return true;
}

bool append_rest(Arena& arena, std::uint32_t pd, const Sge* sge, std::uint32_t count,
                 std::uint32_t access, SegmentList& list)
{
    for (std::uint32_t i = 0; i < count; ++i) {
        const Sge entry = sge[i]; // others may change it meanwhile
        if (entry.length == 0) {
            continue;
        }
        const MrShared* region =
            find_region(arena, entry.lkey, entry.address, entry.length, access, pd);
        if (region == nullptr
                ? !append_listed(arena, entry.lkey, entry.address, entry.length, access, pd, list)
                : list.count == kMaxSge || !list.append(*region, entry.address, entry.length)) {
            return false;
        }
    }
    return true;
}

} // namespace softhca
