// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// All collectors share one timer and one eventfd, which the unmap log and the caches write to.
#include "mem/memory_collector.hpp"

#include "abi/host.hpp"
#include "mem/cache.hpp"
#include "mem/caches.hpp"
#include "mem/unmap_log.hpp"
#include "verbs/error.hpp"

#include <cerrno>
#include <mutex>
#include <stdexcept>
#include <sys/eventfd.h>
#include <unistd.h>

namespace gdr::mem {
namespace {

constexpr double kPeriod = 1; // seconds

std::mutex mutex; // for the variables below; adding and removing wait for the handlers
unsigned collectors = 0;
int timer = 0;

// Stays open until the process ends, because threads may be about to write to it.
int alarm_fd()
{
    static const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0) {
        throw verbs::Error("eventfd for unmapped memory", errno);
    }
    return fd;
}

void for_each_cache(auto call)
{
    Caches::instance().for_each("collecting memory", call);
}

void on_alarm(int fd, uint8_t, void*)
{
    uint64_t count;
    (void)!read(fd, &count, sizeof(count)); // nonblocking: a stale event reads nothing
    UnmapLog::instance().alarm().hush();    // before collecting: later unmaps ring again
    for_each_cache(&Cache::collect_unmapped);
    Alarm& registered = Caches::instance().alarm();
    if (registered.has_rung()) {
        registered.hush();
        for_each_cache(&Cache::collect_freed);
    }
}

void on_timer(int, uint8_t, void*)
{
    for_each_cache(&Cache::collect_freed);
}

} // namespace

MemoryCollector::MemoryCollector()
{
    std::lock_guard guard(mutex);
    if (collectors == 0) {
        if (abi::async_add_fd(alarm_fd(), on_alarm, nullptr) != UCS_OK) {
            throw std::runtime_error("UCX's asynchronous thread does not take the news of unmapped "
                                     "memory");
        }
        if (abi::async_add_timer(kPeriod, on_timer, nullptr, &timer) != UCS_OK) {
            abi::async_remove_fd(alarm_fd());
            throw std::runtime_error("UCX's asynchronous thread does not look for freed memory");
        }
        UnmapLog::instance().alarm().set(alarm_fd());
        Caches::instance().alarm().set(alarm_fd());
    }
    ++collectors;
}

MemoryCollector::~MemoryCollector()
{
    std::lock_guard guard(mutex);
    if (--collectors == 0) {
        Caches::instance().alarm().set(-1);
        UnmapLog::instance().alarm().set(-1);
        abi::async_remove_timer(timer);
        abi::async_remove_fd(alarm_fd());
    }
}

} // namespace gdr::mem
