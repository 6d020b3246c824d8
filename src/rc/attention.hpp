// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// How other threads tell an interface that something rare is to be done.
#pragma once

#include <atomic>
#include <cstdint>
#include <unistd.h>

namespace gdr::rc {

// The interface looks when it is progressed next; wakeup_fd, an eventfd, wakes one that sleeps. In
// this order: one that reads the descriptor and then finds the flag down may sleep.
inline void call_attention(std::atomic<bool>& attention, int wakeup_fd)
{
    attention.store(true, std::memory_order_release);
    uint64_t one = 1;
    (void)!write(wakeup_fd, &one, sizeof(one)); // full: it is readable anyway
}

} // namespace gdr::rc
