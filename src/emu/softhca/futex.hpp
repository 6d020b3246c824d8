// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Sleeping on a word in shared memory until it changes.
#pragma once

#include <atomic>
#include <climits>
#include <cstdint>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace softhca {

// While the word has this value; unless it is 0, until a time at most.
inline void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value,
                        std::uint64_t until = 0)
{
    const timespec time = {static_cast<time_t>(until / 1'000'000'000),
                           static_cast<long>(until % 1'000'000'000)};
    syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, value, until == 0 ? nullptr : &time, nullptr,
            FUTEX_BITSET_MATCH_ANY);
}

// Gives the word another value and wakes who sleeps on it.
inline void change(std::atomic<std::uint32_t>& word, std::uint32_t value)
{
    word.store(value, std::memory_order_release);
    syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// The same, with the next value: the word counts calls.
inline void call(std::atomic<std::uint32_t>& calls)
{
    calls.fetch_add(1, std::memory_order_release);
    syscall(SYS_futex, &calls, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

} // namespace softhca
