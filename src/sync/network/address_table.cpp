// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "sync/network/address_table.hpp"

#include "cuda/context.hpp"
#include "sync/rings/memory.hpp"

#include <optional>
#include <vector>

namespace gdr::sync {
namespace {

constexpr size_t kPlaces = size_t{2} * UGDR_DEV_MEMORIES;

// Nothing: the table has no place for so many.
std::optional<uint32_t> place_of(AddressTable::Half half, uint32_t id)
{
    const uint32_t place = number_of(id) & ((1u << Memories::kPlaceBits) - 1);
    if (place >= UGDR_DEV_MEMORIES) {
        return std::nullopt;
    }
    return static_cast<uint32_t>(half) * UGDR_DEV_MEMORIES + place;
}

} // namespace

void AddressTable::add(Half half, uint32_t id, const Reach& reach, uint64_t peer)
{
    const std::optional<uint32_t> place = place_of(half, id);
    if (!place) {
        return;
    }
    const std::lock_guard guard(lock_);
    const Entry entry{reach, {reach.address, reach.length, id, peer}};
    if (copy_ != nullptr && copy_->shows(reach)) {
        copy_->write(*place, entry.memory);
    }
    entries_[*place] = entry;
}

void AddressTable::remove(Half half, uint32_t id)
{
    const std::optional<uint32_t> place = place_of(half, id);
    const std::lock_guard guard(lock_);
    const auto known = place ? entries_.find(*place) : entries_.end();
    if (known == entries_.end() || known->second.memory.id != id) {
        return;
    }
    if (copy_ != nullptr && copy_->shows(known->second.reach)) {
        copy_->write(*place, {});
    }
    entries_.erase(known);
}

AddressTable::Copy::Copy(AddressTable& table, const cuda::Driver& driver, CUcontext context)
    : table_(table), driver_(driver), context_(context),
      words_(driver, context, kPlaces * sizeof(ugdr_dev_memory_t) / sizeof(uint32_t))
{
    cuda::check(driver.cuCtxGetDevice(&gpu_), "cuCtxGetDevice");
    const std::lock_guard guard(table.lock_);
    std::vector<ugdr_dev_memory_t> memories(kPlaces);
    for (const auto& [place, entry] : table.entries_) {
        if (shows(entry.reach)) {
            memories[place] = entry.memory;
        }
    }
    write_gpu_memory(driver, address(), memories.data(), kPlaces * sizeof(ugdr_dev_memory_t));
    table.copy_ = this;
}

AddressTable::Copy::~Copy()
{
    const std::lock_guard guard(table_.lock_);
    table_.copy_ = nullptr;
}

bool AddressTable::Copy::shows(const Reach& reach) const
{
    return (reach.context == nullptr || reach.context == context_) &&
           (reach.gpu < 0 || reach.gpu == gpu_);
}

void AddressTable::Copy::write(uint32_t place, const ugdr_dev_memory_t& memory) const
{
    const cuda::CurrentContext current(driver_, context_);
    write_gpu_memory(driver_, address() + place * sizeof(memory), &memory, sizeof(memory));
}

} // namespace gdr::sync
