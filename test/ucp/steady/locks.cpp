// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Counted locks.
#include "locks.hpp"

#include <atomic>

#include <dlfcn.h>
#include <pthread.h>

#include "../support/caller.hpp"

namespace ucptest {
namespace {

std::atomic<bool> counting = false;
std::atomic<uint64_t> counts[kCallers];

// Called by the functions below, whose own frame is skipped.
[[gnu::noinline]] void count()
{
    if (!counting.load(std::memory_order_relaxed)) {
        return;
    }
    static thread_local bool walking = false;
    if (walking) {
        return; // the unwinder locks
    }
    walking = true;
    ++counts[caller(2)];
    walking = false;
}

template <typename Function>
Function* real(const char* name)
{
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

} // namespace

void start_counting_locks()
{
    for (auto& count : counts) {
        count = 0;
    }
    counting = true;
}

void stop_counting_locks()
{
    counting = false;
}

uint64_t locks(int library)
{
    return counts[library];
}

} // namespace ucptest

extern "C" {

#define INTERPOSED [[gnu::visibility("default"), gnu::noinline]]

INTERPOSED int pthread_mutex_lock(pthread_mutex_t* mutex)
{
    static auto* const lock = ucptest::real<int(pthread_mutex_t*)>("pthread_mutex_lock");
    ucptest::count();
    return lock(mutex);
}

INTERPOSED int pthread_mutex_trylock(pthread_mutex_t* mutex)
{
    static auto* const try_lock = ucptest::real<int(pthread_mutex_t*)>("pthread_mutex_trylock");
    ucptest::count();
    return try_lock(mutex);
}

} // extern "C"
