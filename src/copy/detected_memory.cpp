// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A small table for each thread.
#include "copy/detected_memory.hpp"

#include "cuda/recent.hpp"
#include "mem/cache.hpp"
#include "mem/freed_watch.hpp"
#include "mem/gpu_direct.hpp"
#include "tables/by_page.hpp"

#include <atomic>
#include <utility>

namespace gdr::copy::detected_memory {
namespace {

struct Answer {
    uint64_t buffer_id = 0;
    uint64_t changes = 0;
    CUdevice device = -1;
    abi::MemoryInfo info; // empty: no address is in it
};

thread_local constinit tables::ByPage<Answer, 6> last; // by the address of the query

struct Allocation {
    uint64_t buffer_id = 0;
    uint64_t several = 0; // several_reported; 0: not a mapping
    bool operator==(const Allocation&) const = default;
};

thread_local constinit tables::ByPage<Allocation, 7> allocations; // by the base

std::atomic<uint64_t> several_reported{1}; // how often several mappings were reported as one

bool holds(const abi::MemoryInfo& info, const void* address, size_t length)
{
    const auto base = reinterpret_cast<uintptr_t>(info.base);
    const auto start = reinterpret_cast<uintptr_t>(address);
    const uintptr_t end = base + info.length;
    return start >= base && start < end && length <= cuda::own_end(end) - start;
}

} // namespace

std::optional<abi::MemoryInfo> find(const void* address, size_t length)
{
    const Answer* known = last.find(reinterpret_cast<uintptr_t>(address));
    if (known == nullptr || !holds(known->info, address, length) ||
        known->changes != mem::Cache::changes() || mem::is_refused(known->device)) {
        return std::nullopt;
    }
    const cuda::Driver* driver = cuda::open_driver();
    if (driver == nullptr || !cuda::still_finished(*driver, address, known->buffer_id)) {
        return std::nullopt;
    }
    return known->info;
}

void remember(const void* address, const cuda::Pointer& memory, const abi::MemoryInfo& info,
              uint64_t changes)
{
    if (memory.context != nullptr && info.type == UCS_MEMORY_TYPE_CUDA) {
        last[reinterpret_cast<uintptr_t>(address)] = {memory.buffer_id, changes, memory.device,
                                                      info};
    }
}

bool is_unknown(const cuda::Pointer& memory, const abi::MemoryInfo& info)
{
    if (memory.mapped && reinterpret_cast<uintptr_t>(info.base) + info.length > memory.end() &&
        !mem::frees_are_reported_by_now()) {
        several_reported.fetch_add(1, std::memory_order_relaxed);
        return true;
    }
    const Allocation now{memory.buffer_id,
                         memory.mapped ? several_reported.load(std::memory_order_relaxed) : 0};
    return std::exchange(allocations[memory.base], now) != now;
}

} // namespace gdr::copy::detected_memory
