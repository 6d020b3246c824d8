// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Answers that a thread caches.
#include "cuda/recent.hpp"
#include "tables/by_page.hpp"

#include <atomic>
#include <mutex>

#ifdef __x86_64__
#include <x86intrin.h>
#endif

namespace gdr::cuda {

namespace {

alignas(8) constinit uint64_t moment = kMoment; // now; 0: no answer holds

// What decides it.
constinit std::mutex mutex;
constinit unsigned freeing = 0; // calls
constinit bool trusted = true;

// With the mutex.
void decide()
{
    std::atomic_ref(moment).store(trusted && freeing == 0 ? kMoment : 0);
}

bool is_less_than_a_moment(uint64_t cycles)
{
#ifdef __x86_64__
    bool less; // of an atomic load GCC makes an instruction more
    asm volatile("cmp %[moment], %[cycles]"
                 : "=@ccb"(less)
                 : [moment] "m"(moment), [cycles] "r"(cycles));
    return less;
#else
    return cycles < std::atomic_ref(moment).load(std::memory_order_relaxed);
#endif
}

// Without such a clock each call is a moment later.
uint64_t now()
{
#ifdef __x86_64__
    return __rdtsc();
#else
    thread_local uint64_t time = 0;
    return time += kMoment;
#endif
}

struct Seen {
    uint64_t buffer_id;
    uint64_t when;
};

bool a_moment_ago(const Seen& seen, uint64_t buffer_id)
{
    return seen.buffer_id == buffer_id && is_less_than_a_moment(now() - seen.when);
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

void trust_moments(bool trust)
{
    const std::lock_guard lock(mutex);
    trusted = trust;
    decide();
}

Freeing::Freeing()
{
    const std::lock_guard lock(mutex);
    ++freeing;
    decide();
}

Freeing::~Freeing()
{
    const uint64_t end = now();
    while (now() - end < kMoment) {
    }
    const std::lock_guard lock(mutex);
    --freeing;
    decide();
}

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
