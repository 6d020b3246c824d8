// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the engine's thread serves besides operations: rings of kernels, prepared transfers.
#pragma once

#include <atomic>

namespace gdr::sync {

class Served {
  public:
    Served() = default;
    Served(const Served&) = delete;
    Served& operator=(const Served&) = delete;

    // ---- the one thread

    // Looks at everything once. Returns the number of events.
    virtual unsigned progress() = 0;
    // Whether something is not complete, for which the thread has to look.
    virtual bool under_way() const = 0;
    // Whether others may begin something at any time without ringing.
    virtual bool armed() const = 0;
    // Whether somebody has rung for it.
    virtual bool has_news() const = 0;

    Served* next = nullptr; // in the engine

    // Any thread: whether the engine's thread has left it for good.
    std::atomic<bool> left{false};

  protected:
    ~Served() = default;
};

} // namespace gdr::sync
