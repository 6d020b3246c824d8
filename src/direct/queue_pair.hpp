// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A connection of two HCAs, used by one thread at a time.
#pragma once

#include "direct/hca.hpp"
#include "verbs/completion_queue.hpp"

#include <cstdint>

namespace gdr::direct {

// By which the other side connects. It is sent as it is.
struct [[gnu::packed]] QueuePairAddress {
    PortAddress port;
    uint32_t hca; // its number on that side (Hcas)
    uint32_t qpn;
    uint32_t psn;
};

class QueuePair {
  public:
    // hca, which outlives it, has this number. Throws verbs::Error.
    QueuePair(Hca& hca, unsigned number);

    QueuePairAddress address() const;

    // Whether a queue pair of that port can be connected to this one.
    bool speaks_with(const QueuePairAddress& peer) const
    {
        return peer.port.link == hca_->address().link;
    }

    // Throws verbs::Error.
    void connect(const QueuePairAddress& peer);

    unsigned hca() const { return number_; }
    ibv_pd* pd() const { return hca_->pd(); }
    const std::string& name() const { return hca_->device().name(); }
    bool has_atomics() const { return hca_->address().atomics != 0; }

    // Work requests that it holds until they are complete, a power of two.
    unsigned depth() const { return depth_; }

    // IBV_SEND_INLINE, if words fit into work requests; else 0.
    unsigned inline_flag() const { return inline_flag_; }

    // Bytes of one work request.
    uint32_t largest_message() const { return largest_; }

    // 0 or an errno.
    int post(ibv_send_wr* list)
    {
        ibv_send_wr* refused = nullptr;
        return ibv_post_send(qp_.get(), list, &refused);
    }

    int poll(ibv_wc* completions, int most) { return ibv_poll_cq(cq_.get(), most, completions); }

    // The HCA drops what is under way and touches its buffers no more.
    void end() { verbs::to_reset(qp_.get()); }

  private:
    Hca* hca_;
    unsigned number_;
    unsigned depth_;
    unsigned inline_flag_ = 0;
    uint32_t largest_;
    uint32_t psn_;
    verbs::CompletionQueue cq_;
    verbs::QueuePair qp_;
};

} // namespace gdr::direct
