// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the handshake, in UCX's async thread, tells its interface.
#pragma once

#include "rc/connect/accepted_connections.hpp"
#include "rc/connect/attention.hpp"
#include "verbs/queue_pair.hpp"

#include <mutex>
#include <string>
#include <utility>
#include <vector>

extern "C" {
#include <uct/api/uct.h>
}

namespace gdr::rc {

struct HandshakeEvent {
    enum class Kind {
        connected, // connection
        failed,    // connection, status, reason
        accepted,  // name, qp: receives from now on
        ending,    // ended: destroy it when the CQ has been polled, then call Handshake::gone()
    };
    Kind kind;
    uint64_t connection = 0;
    ucs_status_t status = UCS_OK;
    std::string reason{};
    ConnectionName name{};
    ibv_qp* qp = nullptr;
    verbs::QueuePair ended{};
};

// Any thread.
class HandshakeEvents {
  public:
    explicit HandshakeEvents(Attention& attention) : attention_(attention) {}

    void publish(HandshakeEvent event)
    {
        {
            std::lock_guard guard(lock_);
            events_.push_back(std::move(event));
        }
        attention_.call();
    }

    std::vector<HandshakeEvent> take()
    {
        std::lock_guard guard(lock_);
        return std::exchange(events_, {});
    }

  private:
    Attention& attention_;
    std::mutex lock_;
    std::vector<HandshakeEvent> events_;
};

} // namespace gdr::rc
