// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/pending_queue.hpp"

namespace gdr::rc {

void PendingQueue::push_back(uct_pending_req_t* request)
{
    link(request) = {nullptr, false};
    if (tail_ != nullptr) {
        link(tail_).next = request;
    } else {
        head_ = request;
    }
    tail_ = request;
}

void PendingQueue::push_front(uct_pending_req_t* request)
{
    link(request).next = head_;
    head_ = request;
    if (tail_ == nullptr) {
        tail_ = request;
    }
}

uct_pending_req_t* PendingQueue::pop_front()
{
    uct_pending_req_t* request = head_;
    head_ = link(request).next;
    if (head_ == nullptr) {
        tail_ = nullptr;
    }
    return request;
}

} // namespace gdr::rc
