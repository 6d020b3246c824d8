// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The active side of the handshake: the connections of an interface's endpoints. Requests and
// farewells are repeated until they are answered.
#pragma once

#include "rc/connect/handshake_events.hpp"
#include "rc/connect/handshake_sender.hpp"

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

namespace gdr::rc {

// All in the async thread.
class ActiveSide {
  public:
    using Clock = std::chrono::steady_clock;

    // no_answer is called with the incarnation of a peer that has not answered a request.
    ActiveSide(HandshakeSender& sender, HandshakeEvents& events,
               std::function<void(uint64_t)> no_answer)
        : sender_(sender), events_(events), no_answer_(std::move(no_answer))
    {
    }

    void begin(uint64_t id, ibv_qp* qp, const DeviceAddress& device, const IfaceAddress& iface);
    void leave(uint64_t id);

    // The key of the connection's peer; NULL: no such connection, or none any more.
    const HashKey* key(uint64_t id) const;

    // A packet from the passive side, of a connection that has a key.
    void handle(const Packet& packet);

    void run_timers();
    Clock::time_point next() const // when run_timers() has something to do
    {
        return timers_.empty() ? Clock::time_point::max() : timers_.begin()->first;
    }

  private:
    struct Connection {
        enum class State { connecting, connected, leaving };
        State state = State::connecting;
        ibv_qp* qp;
        uint32_t psn;
        DeviceAddress device;
        IfaceAddress iface;
        Clock::duration patience; // after the next timer
        Clock::time_point next;   // in timers_, unless connected
        Clock::duration interval;
        bool full = false; // the peer answered that it has too many
    };

    void handle_reply(uint64_t id, Connection& connection, const Packet& packet);
    void handle_reject(uint64_t id, Connection& connection, const Packet& packet);
    void send_packet(uint64_t id, Connection& connection, PacketType type);
    void repeat(uint64_t id, Connection& connection);
    void expire(uint64_t id, Connection& connection);
    void schedule(uint64_t id, Connection& connection, Clock::time_point next);
    void fail(uint64_t id, ucs_status_t status, std::string reason);
    void forget(uint64_t id);

    HandshakeSender& sender_;
    HandshakeEvents& events_;
    const std::function<void(uint64_t)> no_answer_;
    std::unordered_map<uint64_t, Connection> connections_;
    std::set<std::pair<Clock::time_point, uint64_t>> timers_; // of connections
};

} // namespace gdr::rc
