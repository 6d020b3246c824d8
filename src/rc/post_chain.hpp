// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Collects work requests, those of retried pending requests, to post them together with one
// doorbell. It copies them with their inline data, so callers may treat them as posted.
#pragma once

#include "verbs/posting.hpp"

#include <cstddef>
#include <memory>

namespace gdr::rc {

struct Endpoint;

// Worker thread only. Holds work requests of one queue pair at a time.
class PostChain {
  public:
    // For work requests of up to so many pieces and inline bytes.
    PostChain(unsigned most_pieces, size_t max_inline);

    // Adds a copy of the work request. Posts the chain before if it is full or another endpoint's.
    // If posting the chain fails, its endpoint fails.
    void add(Endpoint& ep, const ibv_send_wr& wr, verbs::PostSend post_send);

    // Posts the chain.
    void post(verbs::PostSend post_send)
    {
        if (count_ > 0) {
            post_all(post_send);
        }
    }

  private:
    static constexpr unsigned kLength = 32;

    void post_all(verbs::PostSend post_send);

    const unsigned most_pieces_;
    const size_t max_inline_;
    std::unique_ptr<ibv_send_wr[]> requests_;
    std::unique_ptr<ibv_sge[]> pieces_;
    std::unique_ptr<std::byte[]> inline_data_;
    Endpoint* endpoint_ = nullptr;
    unsigned count_ = 0;
};

} // namespace gdr::rc
