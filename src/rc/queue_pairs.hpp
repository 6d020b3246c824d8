// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Makes the queue pairs of an interface's endpoints, and finds out how much inline data they take.
#pragma once

#include "rc/queues/provider.hpp"
#include "rc/queues/receives.hpp"
#include "verbs/queue_pair.hpp"

namespace gdr::rc {

class QueuePairs {
  public:
    struct Setup {
        ibv_cq* cq;
        verbs::Path path;
        int remote_access;
        unsigned work_requests;
        unsigned pieces; // of a work request
    };

    // Chooses the way of posting. wanted: the most inline data. Throws verbs::Error and
    // UnmetSetting.
    QueuePairs(Provider& provider, ReceiveQueues& receives, const Setup& setup, uint32_t wanted);

    // As granted to a queue pair; 0: none.
    unsigned max_inline() const { return max_inline_; }

    // A queue pair that is not connected, with its receives. Throws verbs::Error.
    verbs::QueuePair make() const;

  private:
    // inline_data: bytes, in: requested, out: granted.
    verbs::QueuePair create(uint32_t* inline_data, verbs::Posting posting) const;
    uint32_t find_max_inline(uint32_t wanted, verbs::Posting posting) const;

    Provider& provider_;
    ReceiveQueues& receives_;
    const Setup setup_;
    unsigned max_inline_ = 0;
};

} // namespace gdr::rc
