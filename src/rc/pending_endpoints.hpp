// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The connected endpoints with pending requests, in the order of their turns. Linked through
// Endpoint.
#pragma once

#include <cstddef>

namespace gdr::rc {

struct Endpoint;

// Worker thread only.
class PendingEndpoints {
  public:
    bool empty() const { return size_ == 0; }
    size_t size() const { return size_; }
    Endpoint* front() const { return head_; }

    // If it has pending requests that may go on: an endpoint that is not connected has no
    // resources, so it is added when it is connected or has failed.
    void add(Endpoint* ep);

    void push_back(Endpoint* ep);
    void remove(Endpoint* ep); // if it is in the list

  private:
    Endpoint* head_ = nullptr;
    Endpoint* tail_ = nullptr;
    size_t size_ = 0;
};

} // namespace gdr::rc
