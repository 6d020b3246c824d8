// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The descriptor by which a worker that sleeps is woken: for completions, and for attention.
#pragma once

#include "rc/connect/attention.hpp"
#include "verbs/handles.hpp"

namespace gdr::rc {

class EventDescriptor {
  public:
    // Throws verbs::Error.
    EventDescriptor(ibv_context* context, const Attention& attention);
    ~EventDescriptor();
    EventDescriptor(const EventDescriptor&) = delete;
    EventDescriptor& operator=(const EventDescriptor&) = delete;

    int fd() const { return fd_; }
    ibv_comp_channel* channel() const { return channel_.get(); } // for the completion queue

    unsigned take(ibv_cq* cq); // the completion queue's events so far; returns how many

  private:
    verbs::CompletionChannel channel_;
    int fd_; // epoll over the channel and the attention's descriptor
};

} // namespace gdr::rc
