// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Work requests that are posted together, with one ring of the doorbell: those of the requests that
// waited for resources. They are copied, with the data that goes inside them: to who posted them
// they are posted.
#pragma once

#include "verbs/posting.hpp"

#include <cstddef>
#include <memory>

namespace gdr::rc {

struct Endpoint;

// Worker thread only. Of one queue pair at a time.
class PostChain {
  public:
    // For work requests of up to so many pieces and bytes inside.
    PostChain(unsigned most_pieces, size_t max_inline);

    // As ibv_post_send: of an endpoint's queue pair, whose qp_context is the endpoint. What is
    // refused then fails the endpoint when the chain is posted.
    static int collect(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** refused);

    // Posts what there is.
    void post(verbs::PostSend post_send)
    {
        if (count_ > 0) {
            post_all(post_send);
        }
    }

  private:
    static constexpr unsigned kLength = 32;

    void add(const ibv_send_wr& wr);
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
