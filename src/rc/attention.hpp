// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// How other threads tell an interface that a rare event needs handling.
#pragma once

#include <atomic>
#include <cstdint>
#include <unistd.h>

namespace gdr::rc {

// The interface checks the flag at its next progress; wakeup_fd, an eventfd, wakes it from sleep.
// The order matters: an interface that reads the descriptor and then finds the flag clear may
// sleep.
inline void call_attention(std::atomic<bool>& attention, int wakeup_fd)
{
    attention.store(true, std::memory_order_release);
    uint64_t one = 1;
    (void)!write(wakeup_fd, &one, sizeof(one)); // if it is full, it is readable anyway
}

} // namespace gdr::rc
