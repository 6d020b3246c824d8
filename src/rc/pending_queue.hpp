// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The requests that wait for an endpoint's resources, in order, and the fences between them. Linked
// through uct_pending_req_t::priv.
#pragma once

extern "C" {
#include <uct/api/uct.h>
}

namespace gdr::rc {

class PendingQueue {
  public:
    bool empty() const { return head_ == nullptr; }
    void push_back(uct_pending_req_t* request);
    void push_front(uct_pending_req_t* request);
    uct_pending_req_t* pop_front();

    // A fence was issued after the last request.
    void fence() { link(tail_).fence_follows = true; }
    static bool fence_follows(uct_pending_req_t* request) { return link(request).fence_follows; }

  private:
    struct Link {
        uct_pending_req_t* next;
        bool fence_follows;
    };
    static_assert(sizeof(Link) <= UCT_PENDING_REQ_PRIV_LEN);
    static Link& link(uct_pending_req_t* request)
    {
        return *reinterpret_cast<Link*>(request->priv);
    }
    uct_pending_req_t* head_ = nullptr;
    uct_pending_req_t* tail_ = nullptr;
};

} // namespace gdr::rc
