// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The end of queue pairs. Such a one is moved to the error state and destroyed only when the HCA
// uses no more receives, and the interface has taken its last completions: what was received is
// delivered, what broke off gives its receive back. It is the interface's thread that destroys it,
// which so is the only one to touch its completion queue.
#pragma once

#include "verbs/queue_pair.hpp"

#include <chrono>
#include <deque>
#include <functional>
#include <unordered_map>
#include <utility>

namespace gdr::rc {

class EndingQueuePairs {
  public:
    using Clock = std::chrono::steady_clock;

    // drain: the completions of this queue pair are all in the CQ. It is to be destroyed when they
    // have been polled, and gone() called. Runs in the caller of the functions below.
    explicit EndingQueuePairs(std::function<void(verbs::QueuePair)> drain)
        : drain_(std::move(drain))
    {
    }

    void end(verbs::QueuePair qp);

    // It uses no more of them: of an SRQ's the HCA says so, of its own the last has come back. Of
    // any queue pair of the interface.
    void receives_done(ibv_qp* qp);

    // Where nobody says it, it has to be believed after a while.
    void expire();

    void gone() { --draining_; } // one of those that were to be drained

    size_t size() const { return ending_.size() + draining_; }
    Clock::time_point next() const // when expire() has something to do
    {
        return deadlines_.empty() ? Clock::time_point::max() : deadlines_.front().first;
    }

  private:
    struct Ending {
        verbs::QueuePair qp;
        Clock::time_point deadline;
    };
    using Endings = std::unordered_map<ibv_qp*, Ending>;

    void reached(Endings::iterator ending);

    const std::function<void(verbs::QueuePair)> drain_;
    Endings ending_;
    size_t draining_ = 0;
    std::deque<std::pair<Clock::time_point, ibv_qp*>> deadlines_;
};

} // namespace gdr::rc
