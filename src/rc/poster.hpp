// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Posts the work requests of an interface's endpoints: at once, or, those of retried pending
// requests, in a chain with one doorbell.
#pragma once

#include "rc/post_chain.hpp"
#include "verbs/posting.hpp"

#include <optional>
#include <utility>

namespace gdr::rc {

// Worker thread only.
class Poster {
  public:
    // For work requests of up to so many pieces and inline bytes.
    void open(verbs::PostSend post_send, unsigned most_pieces, size_t max_inline)
    {
        post_by(post_send);
        chain_.emplace(most_pieces, max_inline);
    }

    // Work requests are posted by this function from now on. Returns the one before.
    verbs::PostSend post_by(verbs::PostSend post_send)
    {
        post_send_ = post_send;
        return std::exchange(at_once_, post_send);
    }

    // Returns the errno. To an endpoint's queue pair, whose qp_context is the endpoint.
    [[gnu::always_inline]] int post(ibv_qp* qp, ibv_send_wr& wr)
    {
        return post_send_(qp, &wr, &refused_);
    }

    // Work requests are collected until stop_collecting(). If posting the chain fails later, the
    // endpoint fails.
    void collect() { post_send_ = add_to_chain; }
    void stop_collecting()
    {
        post_send_ = at_once_;
        post_chain();
    }

    // Posts the collected chain, before somebody waits for it or its queue pair is closed.
    void post_chain() { chain_->post(at_once_); }

  private:
    static int add_to_chain(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** refused);

    verbs::PostSend post_send_ = nullptr;
    ibv_send_wr* refused_ = nullptr; // the work request that post_send_ refused
    verbs::PostSend at_once_ = nullptr;
    std::optional<PostChain> chain_;
};

} // namespace gdr::rc
