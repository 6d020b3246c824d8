// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The counter and the eventfd.
#include "mem/alarm.hpp"

#include <cerrno>
#include <unistd.h>

namespace gdr::mem {

void Alarm::set(int eventfd)
{
    eventfd_.store(eventfd, std::memory_order_relaxed);
    hush();
}

void Alarm::add(uint64_t amount)
{
    const uint64_t before = added_.fetch_add(amount, std::memory_order_relaxed);
    if (before < enough_ && before + amount >= enough_) {
        ring();
    }
}

void Alarm::ring() const
{
    const int fd = eventfd_.load(std::memory_order_relaxed);
    if (fd < 0) {
        return;
    }
    const int error = errno;
    const uint64_t one = 1;
    (void)!write(fd, &one, sizeof(one)); // nonblocking: a full counter has rung already
    errno = error;
}

} // namespace gdr::mem
