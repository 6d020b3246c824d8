// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Answers that a thread caches.
#include "cuda/recent.hpp"
#include "tables/by_page.hpp"

#ifdef __x86_64__
#include <x86intrin.h>
#endif

namespace gdr::cuda {

namespace {

constexpr uint64_t kAMoment = 500; // cycles

// Without such a clock each call is a moment later.
uint64_t now()
{
#ifdef __x86_64__
    return __rdtsc();
#else
    thread_local uint64_t time = 0;
    return time += kAMoment;
#endif
}

struct Seen {
    uint64_t buffer_id;
    uint64_t when;
};

bool a_moment_ago(const Seen& seen, uint64_t buffer_id)
{
    return seen.buffer_id == buffer_id && now() - seen.when < kAMoment;
}

struct Recent {
    Seen seen; // the last one that was known to be finished
    tables::ByPage<Pointer, 4> pointers;
};
thread_local constinit Recent recent{};

bool still_finished(Seen& seen, const Driver& driver, const void* address, uint64_t buffer_id)
{
    if (a_moment_ago(seen, buffer_id)) {
        return true;
    }
    unsigned long long id = 0;
    int sync_memops = 0;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                        CU_POINTER_ATTRIBUTE_SYNC_MEMOPS};
    void* values[] = {&id, &sync_memops};
    if (driver.cuPointerGetAttributes(2, attributes, values,
                                      reinterpret_cast<CUdeviceptr>(address)) != CUDA_SUCCESS ||
        id != buffer_id || sync_memops == 0) {
        return false;
    }
    seen = {buffer_id, now()};
    return true;
}

} // namespace

bool still_finished(const Driver& driver, const void* address, uint64_t buffer_id)
{
    return still_finished(recent.seen, driver, address, buffer_id);
}

bool still_there(const Driver& driver, const void* address, uint64_t id)
{
    return a_moment_ago(recent.seen, id) || buffer_id(driver, address) == id;
}

Pointer finished(const Driver& driver, const void* address)
{
    const auto at = reinterpret_cast<uintptr_t>(address);
    Recent& mine = recent;
    Pointer& known = mine.pointers[at];
    if (at - known.base < known.length &&
        still_finished(mine.seen, driver, address, known.buffer_id)) {
        return known;
    }
    const Pointer memory = classify(driver, address);
    finish_memops(driver, memory);
    if (memory.kind == MemoryKind::device && memory.context != nullptr) {
        known = memory;
    }
    return memory;
}

} // namespace gdr::cuda
