// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Ids are never removed, because CUDA does not reuse them.
#include "mem/own_pins.hpp"

#include <atomic>

namespace gdr::mem::own_pins {
namespace {

constexpr uint64_t kPlaces = 512;
constinit std::atomic<uint64_t> ids[kPlaces]{};

} // namespace

void add(uint64_t buffer_id)
{
    ids[buffer_id % kPlaces].store(buffer_id, std::memory_order_relaxed);
}

bool contain(uint64_t buffer_id)
{
    return buffer_id != 0 && ids[buffer_id % kPlaces].load(std::memory_order_relaxed) == buffer_id;
}

} // namespace gdr::mem::own_pins
