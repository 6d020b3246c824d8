// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Counted allocations.
#include "allocations.hpp"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <new>

#include <dlfcn.h>
#include <sys/mman.h>

#include "../support/caller.hpp"

namespace ucptest {
namespace {

std::atomic<bool> counting = false;
std::atomic<uint64_t> counts[kCallers];

} // namespace

void start_counting_allocations()
{
    for (auto& count : counts) {
        count = 0;
    }
    counting = true;
}

void stop_counting_allocations()
{
    counting = false;
}

uint64_t allocations(int library)
{
    return counts[library];
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

bool allocations_can_be_counted()
{
    return false;
}

} // namespace ucptest

#else

bool allocations_can_be_counted()
{
    return true;
}

namespace {

// Called by the functions below, whose own frame is skipped.
[[gnu::noinline]] void count()
{
    if (!counting.load(std::memory_order_relaxed)) {
        return;
    }
    static thread_local bool walking = false;
    if (walking) {
        return; // the unwinder allocates
    }
    walking = true;
    ++counts[caller(2)];
    walking = false;
}

} // namespace
} // namespace ucptest

extern "C" {

void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);

#define INTERPOSED [[gnu::visibility("default"), gnu::noinline]]

INTERPOSED void* malloc(size_t size)
{
    ucptest::count();
    return __libc_malloc(size);
}

INTERPOSED void* calloc(size_t count, size_t size)
{
    ucptest::count();
    return __libc_calloc(count, size);
}

INTERPOSED void* realloc(void* old, size_t size)
{
    ucptest::count();
    return __libc_realloc(old, size);
}

INTERPOSED void free(void* old)
{
    if (old != nullptr) {
        ucptest::count();
    }
    __libc_free(old);
}

INTERPOSED void* memalign(size_t alignment, size_t size)
{
    ucptest::count();
    return __libc_memalign(alignment, size);
}

INTERPOSED void* aligned_alloc(size_t alignment, size_t size)
{
    ucptest::count();
    return __libc_memalign(alignment, size);
}

INTERPOSED int posix_memalign(void** result, size_t alignment, size_t size)
{
    ucptest::count();
    *result = __libc_memalign(alignment, size);
    return *result == nullptr ? ENOMEM : 0;
}

// libc's own, which UCX changes for its memory hooks.
INTERPOSED void* mmap(void* address, size_t length, int protection, int flags, int fd, off_t offset)
{
    static auto* const map = reinterpret_cast<decltype(&mmap)>(dlsym(RTLD_NEXT, "mmap"));
    ucptest::count();
    return map(address, length, protection, flags, fd, offset);
}

INTERPOSED int munmap(void* address, size_t length)
{
    static auto* const unmap = reinterpret_cast<decltype(&munmap)>(dlsym(RTLD_NEXT, "munmap"));
    ucptest::count();
    return unmap(address, length);
}

} // extern "C"

#endif
