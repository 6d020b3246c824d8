// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/connect/active_side.hpp"

#include "verbs/error.hpp"

#include <algorithm>

namespace gdr::rc {
namespace {

using namespace std::chrono_literals;

constexpr auto kFirstInterval = 50ms;
constexpr auto kLongestInterval = 800ms;
constexpr auto kFarewellPatience = 5s; // after that the peer's questions get no answer

} // namespace

void ActiveSide::begin(uint64_t id, ibv_qp* qp, const DeviceAddress& device,
                       const IfaceAddress& iface)
{
    Connection& connection = connections_[id];
    connection.qp = qp;
    connection.psn = sender_.random_psn();
    connection.device = device;
    connection.iface = iface;
    connection.patience = to_duration(sender_.setup().settings->connect_timeout);
    connection.interval = kFirstInterval;
    repeat(id, connection);
}

void ActiveSide::leave(uint64_t id)
{
    auto found = connections_.find(id);
    if (found == connections_.end()) {
        return; // it failed before
    }
    Connection& connection = found->second;
    connection.state = Connection::State::leaving;
    connection.patience = kFarewellPatience;
    connection.interval = kFirstInterval;
    repeat(id, connection);
}

void ActiveSide::handle(const Packet& packet)
{
    using State = Connection::State;
    const uint64_t id = packet.connection;
    Connection& connection = connections_.at(id);
    switch (packet.type) {
    case PacketType::reply:
        if (connection.state == State::connecting) {
            handle_reply(id, connection, packet);
        }
        return;
    case PacketType::reject:
        if (connection.state == State::connecting) {
            handle_reject(id, connection, packet);
        }
        return;
    case PacketType::farewell_heard:
        if (connection.state == State::leaving) {
            forget(id);
        }
        return;
    case PacketType::question:
        if (connection.state != State::leaving) {
            send_packet(id, connection, PacketType::confirmation);
        }
        return;
    default:
        return;
    }
}

const HashKey* ActiveSide::key(uint64_t id) const
{
    auto found = connections_.find(id);
    return found != connections_.end() ? &found->second.iface.key : nullptr;
}

void ActiveSide::run_timers()
{
    auto now = Clock::now();
    while (next() <= now) {
        uint64_t id = timers_.begin()->second;
        Connection& connection = connections_.at(id);
        if (connection.patience <= Clock::duration::zero()) {
            expire(id, connection);
        } else {
            repeat(id, connection);
        }
    }
}

// A timer that comes late costs no more patience than one in time: while the async thread had no
// turn, it did not hear the peer, and it may be the peer's, too.
void ActiveSide::repeat(uint64_t id, Connection& connection)
{
    const Clock::duration wait = std::min(connection.interval, connection.patience);
    connection.patience -= wait;
    schedule(id, connection, Clock::now() + wait); // first: also for a packet that cannot be sent
    connection.interval = std::min<Clock::duration>(connection.interval * 2, kLongestInterval);
    send_packet(id, connection,
                connection.state == Connection::State::leaving ? PacketType::farewell
                                                               : PacketType::request);
}

void ActiveSide::expire(uint64_t id, Connection& connection)
{
    if (connection.state == Connection::State::leaving) {
        return forget(id);
    }
    if (connection.full) {
        return fail(id, UCS_ERR_UNREACHABLE,
                    "the peer has as many connections as it takes (its log names the limit: "
                    "UCX_GDR_RC_MAX_ACCEPTED, UCX_GDR_RC_MAX_ACCEPTED_OF_PEER or "
                    "UCX_GDR_RC_RX_QUEUE_LEN)");
    }
    no_answer_(connection.iface.incarnation);
    fail(id, UCS_ERR_ENDPOINT_TIMEOUT,
         "the peer did not answer the connection request within UCX_GDR_RC_CONNECT_TIMEOUT (is its "
         "process still there, and is the fabric between the ports up?)");
}

void ActiveSide::send_packet(uint64_t id, Connection& connection, PacketType type)
{
    Packet sent = sender_.packet(type, connection.iface.incarnation, id);
    if (type == PacketType::request) {
        sent.qpn = connection.qp->qp_num;
        sent.psn = connection.psn;
    }
    sender_.send(sent, connection.iface.key, connection.device, connection.iface.handshake_qpn,
                 connection.iface.handshake_qkey);
}

void ActiveSide::schedule(uint64_t id, Connection& connection, Clock::time_point next)
{
    timers_.erase({connection.next, id});
    connection.next = next;
    timers_.emplace(next, id);
}

void ActiveSide::forget(uint64_t id)
{
    auto found = connections_.find(id);
    timers_.erase({found->second.next, id});
    connections_.erase(found);
}

void ActiveSide::fail(uint64_t id, ucs_status_t status, std::string reason)
{
    forget(id);
    HandshakeEvent event{HandshakeEvent::Kind::failed};
    event.connection = id;
    event.status = status;
    event.reason = std::move(reason);
    events_.publish(std::move(event));
}

void ActiveSide::handle_reply(uint64_t id, Connection& connection, const Packet& packet)
{
    const char* step;
    if (int error =
            sender_.connect(connection.qp, connection.device, packet, connection.psn, &step);
        error != 0) {
        return fail(id, UCS_ERR_IO_ERROR,
                    std::string("ibv_modify_qp to ") + step + ": " + verbs::errno_text(error));
    }
    connection.state = Connection::State::connected;
    timers_.erase({connection.next, id});
    HandshakeEvent event{HandshakeEvent::Kind::connected};
    event.connection = id;
    events_.publish(std::move(event));
}

void ActiveSide::handle_reject(uint64_t id, Connection& connection, const Packet& packet)
{
    if (packet.reason == RejectReason::too_many) {
        connection.full = true; // some may end soon
        return;
    }
    fail(id, UCS_ERR_UNREACHABLE, "the peer could not make a queue pair for us (its log says why)");
}

} // namespace gdr::rc
