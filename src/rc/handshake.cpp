// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The handshake protocol: requests and farewells are repeated until answered, and each repeated
// request is answered again. Packets are answered only if they prove that the sender was given the
// passive side's address.
#include "rc/handshake.hpp"

#include "abi/host.hpp"
#include "rc/attention.hpp"
#include "verbs/error.hpp"
#include "verbs/gid.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/timerfd.h>
#include <unistd.h>
#include <utility>

namespace gdr::rc {
namespace {

using namespace std::chrono_literals;

constexpr auto kFirstInterval = 50ms;
constexpr auto kLongestInterval = 800ms;
constexpr auto kFarewellPatience = 5s; // after that the peer's questions get no answer
constexpr unsigned kUnanswered = 3;    // questions to a live peer that may stay unanswered
// The most work of one turn: everybody shares the async thread, even if somebody floods us.
constexpr unsigned kPacketsPerTurn = 64;
constexpr unsigned kQuestionsPerTurn = 64;
constexpr auto kNextTurn = 1ms;
constexpr auto kComplaintInterval = 1s;
constexpr unsigned kAcceptedSends = 16;
constexpr uint32_t kPsnMask = 0xffffff;

std::chrono::steady_clock::duration to_duration(double seconds)
{
    return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(seconds));
}

// InfiniBand's code of the shortest RNR delay that is at least so long.
uint8_t rnr_timer(double seconds)
{
    static constexpr double milliseconds[] = {
        655.36, 0.01,  0.02,  0.03,  0.04,  0.06,   0.08,   0.12,   0.16,   0.24,  0.32,
        0.48,   0.64,  0.96,  1.28,  1.92,  2.56,   3.84,   5.12,   7.68,   10.24, 15.36,
        20.48,  30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52};
    for (uint8_t code = 1; code < 32; ++code) {
        if (milliseconds[code] * 1e-3 >= seconds) {
            return code;
        }
    }
    return 31;
}

} // namespace

Handshake::Handshake(const HandshakeSetup& setup, std::atomic<bool>& attention, int wakeup_fd)
    : setup_(setup), attention_(attention), wakeup_fd_(wakeup_fd),
      channel_(setup.context, setup.pd, setup.path, setup.iface.handshake_qkey, tasks_),
      ending_([this](verbs::QueuePair qp) {
          HandshakeEvent event{HandshakeEvent::Kind::ending};
          event.ended = std::move(qp);
          publish(std::move(event));
      }),
      timer_fd_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      accepted_(setup.settings->max_accepted, setup.settings->max_accepted_of_peer,
                to_duration(setup.settings->keepalive_interval))
{
    setup_.iface.handshake_qpn = channel_.qpn();
    if (timer_fd_ < 0) {
        throw verbs::Error("timerfd_create for the handshake", errno);
    }
    if (abi::async_add_fd(channel_.fd(), on_readable, this) != UCS_OK) {
        close(timer_fd_);
        throw std::runtime_error("UCX's asynchronous thread does not take the handshake's events");
    }
    if (abi::async_add_fd(timer_fd_, on_timer, this) != UCS_OK) {
        abi::async_remove_fd(channel_.fd());
        close(timer_fd_);
        throw std::runtime_error("UCX's asynchronous thread does not take the handshake's timer");
    }
}

Handshake::~Handshake()
{
    abi::async_remove_fd(timer_fd_);
    abi::async_remove_fd(channel_.fd());
    tasks_.detach();
    tasks_.run(); // farewells above all
    channel_.stop_resolving();
    tasks_.run();
    channel_.drain();
    close(timer_fd_);
}

// ---- for the interface's thread
void Handshake::connect(uint64_t id, ibv_qp* qp, const DeviceAddress& device,
                        const IfaceAddress& iface)
{
    tasks_.post([this, id, qp, device, iface] {
        begin(id, qp, device, iface);
        arm_timer();
    });
}

void Handshake::disconnect(uint64_t id, verbs::QueuePair qp)
{
    // std::function needs copyable captures.
    tasks_.post([this, id, raw = qp.release()] {
        leave(id, verbs::QueuePair(raw));
        arm_timer();
    });
}

void Handshake::peer_failed(uint64_t peer)
{
    tasks_.post([this, peer] {
        end(accepted_.remove_all(peer));
        arm_timer();
    });
}

void Handshake::accepted_failed(const ConnectionName& name)
{
    tasks_.post([this, name] {
        end(accepted_.remove(name));
        arm_timer();
    });
}

void Handshake::give_up()
{
    tasks_.post([this] {
        given_up_ = true;
        end(accepted_.remove_all());
        arm_timer();
    });
}

std::vector<HandshakeEvent> Handshake::take_events()
{
    std::lock_guard guard(lock_);
    return std::exchange(events_, {});
}

void Handshake::gone()
{
    tasks_.post([this] { ending_.gone(); });
}

void Handshake::receives_done(ibv_qp* qp)
{
    tasks_.post([this, qp] { ending_.receives_done(qp); });
}

void Handshake::publish(HandshakeEvent event)
{
    {
        std::lock_guard guard(lock_);
        events_.push_back(std::move(event));
    }
    call_attention(attention_, wakeup_fd_);
}

// ---- turns of the async thread
void Handshake::on_readable(int, unsigned char, void* self)
{
    static_cast<Handshake*>(self)->receive();
}

void Handshake::receive()
{
    more_ = false;
    try {
        for (unsigned i = 0; i < kPacketsPerTurn; ++i) {
            auto packet = channel_.receive();
            if (!packet) {
                return arm_timer();
            }
            handle(*packet);
        }
        more_ = true;
        channel_.pause(); // or the descriptor would stay readable
    } catch (const std::exception& error) {
        gdr_log(error, "%s: no further endpoints can be connected", error.what());
    }
    arm_timer();
}

void Handshake::on_timer(int fd, unsigned char, void* arg)
{
    auto& self = *static_cast<Handshake*>(arg);
    uint64_t expirations;
    (void)!read(fd, &expirations, sizeof(expirations)); // nonblocking: a stale event reads nothing
    if (self.more_) {
        self.receive();
    }
    self.run_timers();
    self.arm_timer();
}

void Handshake::run_timers()
{
    auto now = Clock::now();
    while (!timers_.empty() && timers_.begin()->first <= now) {
        uint64_t id = timers_.begin()->second;
        Connection& connection = connections_.at(id);
        if (now >= connection.deadline) {
            expire(id, connection);
        } else {
            repeat(id, connection);
        }
    }
    ending_.expire();
    ask_peers();
}

void Handshake::arm_timer()
{
    auto next = std::min(accepted_.next(), ending_.next());
    if (!timers_.empty()) {
        next = std::min(next, timers_.begin()->first);
    }
    if (more_) {
        next = std::min(next, Clock::now() + kNextTurn);
    }
    itimerspec spec{};
    if (next != Clock::time_point::max()) {
        auto delay = std::max<Clock::duration>(next - Clock::now(), kNextTurn);
        auto seconds = std::chrono::duration_cast<std::chrono::seconds>(delay);
        spec.it_value.tv_sec = seconds.count();
        spec.it_value.tv_nsec = std::chrono::nanoseconds(delay - seconds).count();
    }
    timerfd_settime(timer_fd_, 0, &spec, nullptr);
}

// ---- the active side
void Handshake::begin(uint64_t id, ibv_qp* qp, const DeviceAddress& device,
                      const IfaceAddress& iface)
{
    Connection& connection = connections_[id];
    connection.qp = qp;
    connection.psn = random_() & kPsnMask;
    connection.device = device;
    connection.iface = iface;
    connection.deadline = Clock::now() + to_duration(setup_.settings->connect_timeout);
    connection.interval = kFirstInterval;
    repeat(id, connection);
}

void Handshake::leave(uint64_t id, verbs::QueuePair qp)
{
    if (qp) {
        ending_.end(std::move(qp));
    }
    auto found = connections_.find(id);
    if (found == connections_.end()) {
        return; // it failed before
    }
    Connection& connection = found->second;
    connection.state = Connection::State::leaving;
    connection.deadline = Clock::now() + kFarewellPatience;
    connection.interval = kFirstInterval;
    repeat(id, connection);
}

void Handshake::repeat(uint64_t id, Connection& connection)
{
    send_packet(id, connection,
                connection.state == Connection::State::leaving ? PacketType::farewell
                                                               : PacketType::request);
    schedule(id, connection, std::min(Clock::now() + connection.interval, connection.deadline));
    connection.interval = std::min<Clock::duration>(connection.interval * 2, kLongestInterval);
}

void Handshake::expire(uint64_t id, Connection& connection)
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
    end(accepted_.remove_all(connection.iface.incarnation));
    fail(id, UCS_ERR_ENDPOINT_TIMEOUT,
         "the peer did not answer the connection request within UCX_GDR_RC_CONNECT_TIMEOUT (is its "
         "process still there, and is the fabric between the ports up?)");
}

void Handshake::send_packet(uint64_t id, Connection& connection, PacketType type)
{
    Packet sent = packet(type, connection.iface.incarnation, id);
    if (type == PacketType::request) {
        sent.qpn = connection.qp->qp_num;
        sent.psn = connection.psn;
    }
    send(sent, connection.iface.key, connection.device, connection.iface.handshake_qpn,
         connection.iface.handshake_qkey);
}

void Handshake::schedule(uint64_t id, Connection& connection, Clock::time_point next)
{
    timers_.erase({connection.next, id});
    connection.next = next;
    timers_.emplace(next, id);
}

void Handshake::forget(uint64_t id)
{
    auto found = connections_.find(id);
    timers_.erase({found->second.next, id});
    connections_.erase(found);
}

void Handshake::fail(uint64_t id, ucs_status_t status, std::string reason)
{
    forget(id);
    HandshakeEvent event{HandshakeEvent::Kind::failed};
    event.connection = id;
    event.status = status;
    event.reason = std::move(reason);
    publish(std::move(event));
}

void Handshake::handle_reply(uint64_t id, Connection& connection, const Packet& packet)
{
    const char* step;
    if (int error = connect_qp(connection.qp, connection.device, packet, connection.psn, &step);
        error != 0) {
        return fail(id, UCS_ERR_IO_ERROR,
                    std::string("ibv_modify_qp to ") + step + ": " + verbs::errno_text(error));
    }
    connection.state = Connection::State::connected;
    timers_.erase({connection.next, id});
    HandshakeEvent event{HandshakeEvent::Kind::connected};
    event.connection = id;
    publish(std::move(event));
}

void Handshake::handle_reject(uint64_t id, Connection& connection, const Packet& packet)
{
    if (packet.reason == RejectReason::too_many) {
        connection.full = true; // some may end soon
        return;
    }
    fail(id, UCS_ERR_UNREACHABLE, "the peer could not make a queue pair for us (its log says why)");
}

// ---- received packets
void Handshake::handle(const Packet& packet)
{
    if (packet.target != setup_.iface.incarnation) {
        return; // meant for an earlier interface with our queue pair number
    }
    bool to_passive_side = packet.type == PacketType::request ||
                           packet.type == PacketType::farewell ||
                           packet.type == PacketType::confirmation;
    auto found = to_passive_side ? connections_.end() : connections_.find(packet.connection);
    if (!to_passive_side && found == connections_.end()) {
        return; // a repeated answer, or a question for a destroyed endpoint
    }
    const HashKey& key = to_passive_side ? setup_.iface.key : found->second.iface.key;
    const char* const refusal =
        packet.proof != proof(packet, key)
            ? "it does not prove that its sender was given our address"
            : unreachable_reason(setup_.device, setup_.iface.segment_size, &packet.device, nullptr);
    if (refusal != nullptr) {
        if (!std::exchange(logged_ignored_, true)) {
            ibv_gid gid;
            std::copy_n(packet.device.gid, sizeof(gid.raw), gid.raw);
            gdr_log(diag,
                    "a packet of the handshake, which names GID %s as its sender's, is ignored: %s "
                    "(further ones are ignored silently)",
                    verbs::to_string(gid).c_str(), refusal);
        }
        return;
    }
    using State = Connection::State;
    switch (packet.type) {
    case PacketType::request:
        // Resolve the address first: on RoCE connecting a queue pair to an unresolvable neighbour
        // blocks in the kernel just as long.
        return channel_.when_resolved(destination(setup_.device, packet.device),
                                      [this, packet] { handle_request(packet); });
    case PacketType::farewell:
        return handle_farewell(packet);
    case PacketType::confirmation:
        if (AcceptedConnection* accepted = accepted_.find({packet.source, packet.connection})) {
            accepted->unanswered = 0;
        }
        return;
    case PacketType::reply:
        if (found->second.state == State::connecting) {
            handle_reply(found->first, found->second, packet);
        }
        return;
    case PacketType::reject:
        if (found->second.state == State::connecting) {
            handle_reject(found->first, found->second, packet);
        }
        return;
    case PacketType::farewell_heard:
        if (found->second.state == State::leaving) {
            forget(found->first);
        }
        return;
    case PacketType::question:
        if (found->second.state != State::leaving) {
            send_packet(found->first, found->second, PacketType::confirmation);
        }
        return;
    }
}

// ---- the passive side
void Handshake::handle_request(const Packet& packet)
{
    ConnectionName name{packet.source, packet.connection};
    const AcceptedConnection* accepted = accepted_.find(name);
    if (accepted == nullptr) {
        if (given_up_) {
            return refuse(packet, RejectReason::no_resources, "this interface is broken");
        }
        if (const char* limit = accepted_.full(name.peer, ending_.size())) {
            return refuse(packet, RejectReason::too_many, limit);
        }
        if (setup_.receives->full()) {
            return refuse(packet, RejectReason::too_many, "UCX_GDR_RC_RX_QUEUE_LEN");
        }
        accepted = accept(packet);
    }
    if (accepted != nullptr) {
        answer(packet, PacketType::reply, RejectReason::none, accepted);
    }
}

const AcceptedConnection* Handshake::accept(const Packet& packet)
{
    AcceptedConnection accepted{};
    accepted.name = {packet.source, packet.connection};
    accepted.psn = random_() & kPsnMask;
    accepted.device = packet.device;
    accepted.handshake_qpn = packet.handshake_qpn;
    accepted.handshake_qkey = packet.handshake_qkey;
    try {
        ibv_qp_cap capabilities{};
        capabilities.max_send_wr = kAcceptedSends;
        capabilities.max_send_sge = 1;
        setup_.receives->ask_for(capabilities, Side::passive);
        accepted.qp = verbs::create_rc(setup_.pd, setup_.cq, setup_.receives->srq(), setup_.path,
                                       setup_.remote_access, &capabilities);
        setup_.receives->supply(accepted.qp.get(), Side::passive);
    } catch (const std::exception& error) {
        if (accepted.qp) {
            ending_.end(std::move(accepted.qp));
        }
        refuse(packet, RejectReason::no_resources, error.what());
        return nullptr;
    }
    const char* step;
    if (int error = connect_qp(accepted.qp.get(), packet.device, packet, accepted.psn, &step);
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
    publish(std::move(event));
    return added;
}

void Handshake::refuse(const Packet& packet, RejectReason reason, const std::string& why)
{
    if (auto now = Clock::now(); now >= next_complaint_) {
        gdr_log(error, "a peer's connection is refused: %s", why.c_str());
        next_complaint_ = now + kComplaintInterval;
    }
    answer(packet, PacketType::reject, reason);
}

void Handshake::handle_farewell(const Packet& packet)
{
    end(accepted_.remove({packet.source, packet.connection}));
    answer(packet, PacketType::farewell_heard);
}

void Handshake::end(std::vector<verbs::QueuePair> qps)
{
    for (verbs::QueuePair& qp : qps) {
        ending_.end(std::move(qp));
    }
}

void Handshake::ask_peers()
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
        send(packet(PacketType::question, accepted->name.peer, accepted->name.connection),
             setup_.iface.key, accepted->device, accepted->handshake_qpn, accepted->handshake_qkey);
    }
}

void Handshake::answer(const Packet& to, PacketType type, RejectReason reason,
                       const AcceptedConnection* accepted)
{
    Packet answer = packet(type, to.source, to.connection);
    answer.reason = reason;
    if (accepted != nullptr) {
        answer.qpn = accepted->qp->qp_num;
        answer.psn = accepted->psn;
    }
    // If it is lost, the peer repeats its request.
    send(answer, setup_.iface.key, to.device, to.handshake_qpn, to.handshake_qkey);
}

// ---- both sides
int Handshake::connect_qp(ibv_qp* qp, const DeviceAddress& peer, const Packet& packet,
                          uint32_t local_psn, const char** failed)
{
    const Settings& settings = *setup_.settings;
    verbs::RcAttributes rc{};
    rc.mtu = std::min(setup_.mtu, static_cast<ibv_mtu>(peer.mtu));
    rc.remote_qpn = packet.qpn;
    rc.remote_psn = packet.psn;
    rc.local_psn = local_psn;
    rc.max_rd_atomic =
        static_cast<uint8_t>(std::min<unsigned>(setup_.max_rd_atomic, packet.max_dest_rd_atomic));
    rc.max_dest_rd_atomic = static_cast<uint8_t>(setup_.max_dest_rd_atomic);
    rc.timeout = ack_timeout(settings);
    rc.retry_count = static_cast<uint8_t>(settings.retry_count);
    rc.rnr_retry = static_cast<uint8_t>(settings.rnr_retry_count);
    rc.min_rnr_timer = rnr_timer(settings.rnr_timeout);
    return verbs::connect_rc(qp, setup_.path, destination(setup_.device, peer), rc, failed);
}

Packet Handshake::packet(PacketType type, uint64_t target, uint64_t connection) const
{
    Packet packet{};
    packet.magic = kPacketMagic;
    packet.version = kWireVersion;
    packet.type = type;
    packet.max_dest_rd_atomic = static_cast<uint8_t>(setup_.max_dest_rd_atomic);
    packet.source = setup_.iface.incarnation;
    packet.target = target;
    packet.connection = connection;
    packet.handshake_qpn = setup_.iface.handshake_qpn;
    packet.handshake_qkey = setup_.iface.handshake_qkey;
    packet.device = setup_.device;
    return packet;
}

void Handshake::send(Packet packet, const HashKey& key, const DeviceAddress& device, uint32_t qpn,
                     uint32_t qkey)
{
    packet.proof = proof(packet, key);
    channel_.send(packet, destination(setup_.device, device), qpn, qkey);
}

} // namespace gdr::rc
