// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/connect/passive_side.hpp"

#include "log/log.hpp"
#include "rc/connect/wire.hpp"
#include "verbs/error.hpp"

#include <string>
#include <utility>

namespace gdr::rc {
namespace {

using namespace std::chrono_literals;

constexpr unsigned kUnanswered = 3;        // questions to a live peer that may stay unanswered
constexpr unsigned kQuestionsPerTurn = 64; // everybody shares the async thread
constexpr auto kComplaintInterval = 1s;

std::string as_many_as(const char* limit)
{
    return std::string("there are as many as ") + limit +
           " allows (raise it; the peer asks again until its UCX_GDR_RC_CONNECT_TIMEOUT)";
}

} // namespace

PassiveSide::PassiveSide(HandshakeSender& sender, HandshakeEvents& events, EndingQueuePairs& ending)
    : sender_(sender), events_(events), ending_(ending),
      accepted_(setup().settings->max_accepted, setup().settings->max_accepted_of_peer,
                to_duration(setup().settings->keepalive_interval))
{
}

void PassiveSide::handle(const Packet& packet)
{
    switch (packet.type) {
    case PacketType::request:
        return handle_request(packet);
    case PacketType::farewell:
        return handle_farewell(packet);
    case PacketType::confirmation:
        if (AcceptedConnection* accepted = accepted_.find({packet.source, packet.connection})) {
            accepted->unanswered = 0;
        }
        return;
    default:
        return;
    }
}

void PassiveSide::handle_request(const Packet& packet)
{
    ConnectionName name{packet.source, packet.connection};
    const AcceptedConnection* accepted = accepted_.find(name);
    if (accepted == nullptr) {
        if (given_up_) {
            return refuse(packet, RejectReason::no_resources, "the HCA has failed before");
        }
        if (const char* limit = accepted_.full(name.peer, ending_.size())) {
            return refuse(packet, RejectReason::too_many, as_many_as(limit));
        }
        if (setup().receives->full()) {
            return refuse(packet, RejectReason::too_many, as_many_as("UCX_GDR_RC_RX_QUEUE_LEN"));
        }
        accepted = accept(packet);
    }
    if (accepted != nullptr) {
        answer(packet, PacketType::reply, RejectReason::none, accepted);
    }
}

const AcceptedConnection* PassiveSide::accept(const Packet& packet)
{
    AcceptedConnection accepted{};
    accepted.name = {packet.source, packet.connection};
    accepted.psn = sender_.random_psn();
    accepted.device = packet.device;
    accepted.handshake_qpn = packet.handshake_qpn;
    accepted.handshake_qkey = packet.handshake_qkey;
    try {
        ibv_qp_cap capabilities{};
        capabilities.max_send_wr = kMostGrants;
        capabilities.max_send_sge = 1;
        setup().receives->ask_for(capabilities, Side::passive);
        accepted.qp = verbs::create_rc(setup().pd, setup().cq, setup().receives->srq(),
                                       setup().path, setup().remote_access, &capabilities);
        setup().receives->supply(accepted.qp.get(), Side::passive);
    } catch (const std::exception& error) {
        if (accepted.qp) {
            ending_.end(std::move(accepted.qp));
        }
        refuse(packet, RejectReason::no_resources, error.what());
        return nullptr;
    }
    const char* step;
    if (int error = sender_.connect(accepted.qp.get(), packet.device, packet, accepted.psn, &step);
        error != 0) {
        ending_.end(std::move(accepted.qp));
        refuse(packet, RejectReason::no_resources,
               std::string("ibv_modify_qp to ") + step + ": " + verbs::errno_text(error));
        return nullptr;
    }
    HandshakeEvent event{HandshakeEvent::Kind::accepted};
    event.name = accepted.name;
    event.qp = accepted.qp.get();
    const AcceptedConnection* added = accepted_.add(std::move(accepted));
    events_.publish(std::move(event));
    return added;
}

void PassiveSide::refuse(const Packet& packet, RejectReason reason, const std::string& why)
{
    if (auto now = Clock::now(); now >= next_complaint_) {
        log::message(reason == RejectReason::too_many ? log::Level::warn : log::Level::error,
                     __FILE__, __LINE__, "%s:%u refuses a connection of the peer at %s: %s",
                     ibv_get_device_name(setup().context->device), unsigned{setup().path.port},
                     to_string(packet.device).c_str(), why.c_str());
        next_complaint_ = now + kComplaintInterval;
    }
    answer(packet, PacketType::reject, reason);
}

void PassiveSide::handle_farewell(const Packet& packet)
{
    end(accepted_.remove({packet.source, packet.connection}));
    answer(packet, PacketType::farewell_heard);
}

void PassiveSide::end(std::vector<verbs::QueuePair> qps)
{
    for (verbs::QueuePair& qp : qps) {
        ending_.end(std::move(qp));
    }
}

void PassiveSide::ask_peers()
{
    for (unsigned i = 0; i < kQuestionsPerTurn; ++i) {
        AcceptedConnection* accepted = accepted_.next_question();
        if (accepted == nullptr) {
            return;
        }
        if (accepted->unanswered++ == kUnanswered) {
            end(accepted_.remove(accepted->name));
            continue;
        }
        sender_.send(
            sender_.packet(PacketType::question, accepted->name.peer, accepted->name.connection),
            setup().iface.key, accepted->device, accepted->handshake_qpn, accepted->handshake_qkey);
    }
}

void PassiveSide::answer(const Packet& to, PacketType type, RejectReason reason,
                         const AcceptedConnection* accepted)
{
    Packet answer = sender_.packet(type, to.source, to.connection);
    answer.reason = reason;
    if (accepted != nullptr) {
        answer.qpn = accepted->qp->qp_num;
        answer.psn = accepted->psn;
    }
    // If it is lost, the peer repeats its request.
    sender_.send(answer, setup().iface.key, to.device, to.handshake_qpn, to.handshake_qkey);
}

void PassiveSide::end_all_of(uint64_t peer)
{
    end(accepted_.remove_all(peer));
}

void PassiveSide::end(const ConnectionName& name)
{
    end(accepted_.remove(name));
}

void PassiveSide::give_up()
{
    given_up_ = true;
    end(accepted_.remove_all());
}

} // namespace gdr::rc
