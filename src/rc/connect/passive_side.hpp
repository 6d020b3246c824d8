// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The passive side of the handshake: makes queue pairs for peers' endpoints. Each repeated request
// is answered again. Peers that do not answer questions are gone.
#pragma once

#include "rc/connect/accepted_connections.hpp"
#include "rc/connect/ending.hpp"
#include "rc/connect/handshake_events.hpp"
#include "rc/connect/handshake_sender.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace gdr::rc {

// All in the async thread.
class PassiveSide {
  public:
    using Clock = std::chrono::steady_clock;

    PassiveSide(HandshakeSender& sender, HandshakeEvents& events, EndingQueuePairs& ending);

    // A packet from the active side. The address of a request's sender has been resolved.
    void handle(const Packet& packet);

    void end_all_of(uint64_t peer); // its incarnation
    void end(const ConnectionName& name);
    void give_up(); // ends all, and accepts no new ones

    void ask_peers();
    Clock::time_point next() const { return accepted_.next(); } // when to ask

  private:
    const HandshakeSetup& setup() const { return sender_.setup(); }
    void handle_request(const Packet& packet);
    void handle_farewell(const Packet& packet);
    const AcceptedConnection* accept(const Packet& packet);
    void refuse(const Packet& packet, RejectReason reason, const std::string& why);
    void end(std::vector<verbs::QueuePair> qps);
    void answer(const Packet& to, PacketType type, RejectReason reason = RejectReason::none,
                const AcceptedConnection* accepted = nullptr);

    HandshakeSender& sender_;
    HandshakeEvents& events_;
    EndingQueuePairs& ending_;
    AcceptedConnections accepted_;
    bool given_up_ = false;
    Clock::time_point next_complaint_{};
};

} // namespace gdr::rc
