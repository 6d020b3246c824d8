// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The end of queue pairs. A queue pair is moved to the error state, and destroyed only when the HCA
// uses no more of its receives and the interface has polled its last completions. So received
// messages are delivered, and interrupted receives come back. The interface's thread destroys it,
// and thus remains the only thread that touches the completion queue.
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

    // drain: called when all completions of the queue pair are in the CQ. The receiver must destroy
    // it after polling them, and then call gone(). It runs in the caller of the functions below.
    explicit EndingQueuePairs(std::function<void(verbs::QueuePair)> drain)
        : drain_(std::move(drain))
    {
    }

    void end(verbs::QueuePair qp);

    // To be called for any queue pair of the interface that uses no more receives: the HCA reports
    // it for an SRQ, and its own last receive has come back otherwise.
    void receives_done(ibv_qp* qp);

    // Assumes after a while that the receives are done, for HCAs that do not report it.
    void expire();

    void gone() { --draining_; } // a drained queue pair was destroyed

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
