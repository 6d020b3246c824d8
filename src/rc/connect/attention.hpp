// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// How an interface learns that a rare event needs handling: the handshake, completions that were
// polled before, or an endpoint has something to be done. The interface checks a flag at its next
// progress; an eventfd wakes it from sleep.
#pragma once

#include "verbs/error.hpp"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <sys/eventfd.h>
#include <unistd.h>

namespace gdr::rc {

class Attention {
  public:
    // Throws verbs::Error.
    Attention() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))
    {
        if (fd_ < 0) {
            throw verbs::Error("making an interface's event descriptors", errno);
        }
    }
    ~Attention() { close(fd_); }
    Attention(const Attention&) = delete;
    Attention& operator=(const Attention&) = delete;

    // From any thread. The order matters: an interface that reads the descriptor and then finds the
    // flag clear may sleep.
    void call()
    {
        flag_.store(true, std::memory_order_release);
        uint64_t one = 1;
        (void)!write(fd_, &one, sizeof(one)); // if it is full, it is readable anyway
    }

    // ---- for the interface's thread
    bool wanted() const { return flag_.load(std::memory_order_relaxed); }
    void want() { flag_.store(true, std::memory_order_relaxed); }
    void given() { flag_.store(false); } // before what wants it is looked at

    // Before it sleeps: call_seen() first, then called().
    void call_seen()
    {
        uint64_t calls;
        (void)!read(fd_, &calls, sizeof(calls));
    }
    bool called() const { return flag_.load(std::memory_order_acquire); }

    int fd() const { return fd_; } // readable after call()
    std::atomic<bool>& flag() { return flag_; }

  private:
    std::atomic<bool> flag_{false};
    const int fd_;
};

} // namespace gdr::rc
