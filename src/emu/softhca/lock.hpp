// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Locks. SharedLock lives in shared memory and survives the death of its holder: the word names
// the process that holds it, and a waiter who finds that process dead takes the lock over. It
// costs one atomic exchange to take and a plain store to release, makes no system call while
// uncontended, and gives the processor away while contended. All zero is unlocked.
// PrivateLock is the same for the threads of one process.
#pragma once

#include <atomic>
#include <cstdint>

#include <sched.h>

namespace softhca {

// Names one process of a fabric: its slot in the table and the generation of that slot. 0: nobody.
using Token = std::uint32_t;

// What a live process holds for so long, it never took: the word has been overwritten.
constexpr std::uint64_t kLongestHold = 20'000'000'000; // ns

class SharedLock {
  public:
    void lock(Token self)
    {
        Token free = 0;
        if (!owner_.compare_exchange_strong(free, self, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
            lock_contended(self);
        }
    }
    void unlock() { owner_.store(0, std::memory_order_release); }

  private:
    void lock_contended(Token self);

    std::atomic<Token> owner_;
};

class SharedGuard {
  public:
    SharedGuard(SharedLock& lock, Token self) : lock_(lock) { lock_.lock(self); }
    ~SharedGuard() { lock_.unlock(); }
    SharedGuard(const SharedGuard&) = delete;
    SharedGuard& operator=(const SharedGuard&) = delete;

  private:
    SharedLock& lock_;
};

class PrivateLock {
  public:
    void lock()
    {
        for (unsigned spins = 0; locked_.exchange(true, std::memory_order_acquire); ++spins) {
            if (spins >= 64) {
                sched_yield();
            }
        }
    }
    void unlock() { locked_.store(false, std::memory_order_release); }

  private:
    std::atomic<bool> locked_{false};
};

} // namespace softhca
