// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The handshake's protocol: requests repeated until answered, answers repeated for repeated
// requests.
#include "rc/handshake.hpp"

#include "abi/host.hpp"
#include "rc/attention.hpp"
#include "verbs/error.hpp"

#include <algorithm>
#include <cerrno>
#include <random>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <utility>

namespace gdr::rc {
namespace {

using namespace std::chrono_literals;

constexpr auto kBusyInterval = 2ms; // where no send buffer was free
constexpr auto kFirstInterval = 50ms;
constexpr auto kLongestInterval = 800ms;
// Between a peer's farewell and the destruction of its acceptor: what it sent has long reached our
// CQ.
constexpr auto kRetirementDelay = 1s;
constexpr unsigned kAcceptorSends = 16;
constexpr uint32_t kPsnMask = 0xffffff;

uint32_t random_psn()
{
    static thread_local std::minstd_rand generator(std::random_device{}());
    return generator() & kPsnMask;
}

// InfiniBand's code of the shortest RNR delay that is at least this long.
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
      channel_(setup.context, setup.pd, setup.path), channel_qpn_(channel_.qpn()),
      timer_fd_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC))
{
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
    close(timer_fd_);
}

void Handshake::connect(uint64_t id, ibv_qp* qp, const DeviceAddress& device,
                        const IfaceAddress& iface)
{
    std::lock_guard guard(lock_);
    auto now = Clock::now();
    auto timeout = std::chrono::duration<double>(setup_.settings->connect_timeout);
    Connection& connection =
        connecting_
            .emplace(id, Connection{qp, random_psn(), device, iface,
                                    now + std::chrono::duration_cast<Clock::duration>(timeout), now,
                                    kFirstInterval})
            .first->second;
    send_request(id, connection);
    arm_timer();
}

void Handshake::disconnect(uint64_t id, const DeviceAddress& device, const IfaceAddress& iface)
{
    std::lock_guard guard(lock_);
    connecting_.erase(id);
    Packet farewell = packet(PacketType::disconnect, iface.incarnation, id);
    // Lost, it costs the peer an unused queue pair until the peer's own endpoint to us goes.
    (void)channel_.send(farewell, destination(setup_.address, device), iface.handshake_qpn);
}

void Handshake::peer_failed(uint64_t peer)
{
    std::lock_guard guard(lock_);
    retire_all(peer);
    arm_timer();
}

void Handshake::acceptor_failed(const Acceptor& acceptor)
{
    std::lock_guard guard(lock_);
    retire(acceptor.peer, acceptor.connection);
    arm_timer();
}

std::vector<HandshakeEvent> Handshake::take_events()
{
    std::lock_guard guard(lock_);
    uint64_t count;
    (void)!read(wakeup_fd_, &count, sizeof(count)); // nonblocking: empty is fine
    return std::exchange(events_, {});
}

void Handshake::destroy(Acceptor* acceptor)
{
    std::lock_guard guard(lock_);
    acceptors_.erase(acceptor);
}

void Handshake::on_readable(int, unsigned char, void* arg)
{
    auto& self = *static_cast<Handshake*>(arg);
    std::lock_guard guard(self.lock_);
    try {
        while (auto packet = self.channel_.receive()) {
            self.handle(*packet);
        }
    } catch (const std::exception& error) {
        gdr_log(error, "%s: no further endpoints can be connected", error.what());
    }
    self.arm_timer();
}

void Handshake::on_timer(int fd, unsigned char, void* arg)
{
    auto& self = *static_cast<Handshake*>(arg);
    uint64_t expirations;
    (void)!read(fd, &expirations, sizeof(expirations)); // nonblocking: a stale event reads nothing
    std::lock_guard guard(self.lock_);
    auto now = Clock::now();

    std::vector<uint64_t> expired;
    for (auto& [id, connection] : self.connecting_) {
        if (now >= connection.deadline) {
            expired.push_back(id);
        } else if (now >= connection.next_send) {
            self.send_request(id, connection);
        }
    }
    for (uint64_t id : expired) {
        self.retire_all(self.connecting_.at(id).iface.incarnation);
        self.fail(id, UCS_ERR_ENDPOINT_TIMEOUT,
                  "the peer did not answer the connection request within "
                  "UCX_GDR_RC_CONNECT_TIMEOUT (is its "
                  "process still there, and is the fabric between the ports up?)");
    }
    std::erase_if(self.retirements_, [&](const Retirement& retirement) {
        if (now < retirement.due) {
            return false;
        }
        HandshakeEvent event{HandshakeEvent::Kind::retired};
        event.acceptor = retirement.acceptor;
        self.publish(std::move(event));
        return true;
    });
    self.arm_timer();
}

void Handshake::handle(const Packet& packet)
{
    if (packet.target != setup_.incarnation) {
        // Meant for an interface that had our queue pair number before.
        if (packet.type == PacketType::request) {
            answer(packet, PacketType::reject, RejectReason::stale_address, nullptr);
        }
        return;
    }
    switch (packet.type) {
    case PacketType::request:
        return handle_request(packet);
    case PacketType::reply:
        return handle_reply(packet);
    case PacketType::reject:
        return handle_reject(packet);
    case PacketType::disconnect:
        return retire(packet.source, packet.connection);
    }
}

void Handshake::handle_request(const Packet& packet)
{
    Acceptor* acceptor = nullptr;
    if (auto of_peer = by_peer_.find(packet.source); of_peer != by_peer_.end()) {
        auto found = of_peer->second.find(packet.connection);
        acceptor = found != of_peer->second.end() ? found->second : nullptr;
    }
    if (acceptor == nullptr) {
        std::string reason;
        acceptor = accept(packet, &reason);
        if (acceptor == nullptr) {
            gdr_log(error, "a peer's connection is refused: %s", reason.c_str());
            return answer(packet, PacketType::reject, RejectReason::no_resources, nullptr);
        }
        by_peer_[packet.source].emplace(packet.connection, acceptor);
    }
    answer(packet, PacketType::reply, RejectReason::none, acceptor);
}

Acceptor* Handshake::accept(const Packet& packet, std::string* reason)
{
    auto acceptor = std::make_unique<Acceptor>();
    acceptor->peer = packet.source;
    acceptor->connection = packet.connection;
    acceptor->psn = random_psn();
    try {
        ibv_qp_cap capabilities{};
        capabilities.max_send_wr = kAcceptorSends;
        capabilities.max_send_sge = 1;
        acceptor->qp =
            verbs::create_rc(setup_.pd, setup_.cq, setup_.srq, setup_.path, &capabilities);
    } catch (const verbs::Error& error) {
        *reason = error.what();
        return nullptr;
    }
    const char* step;
    if (int error = connect_qp(acceptor->qp.get(), packet.device, packet.qpn, packet.psn,
                               acceptor->psn, packet.max_dest_rd_atomic, &step);
        error != 0) {
        *reason = std::string("ibv_modify_qp to ") + step + ": " + verbs::errno_text(error);
        return nullptr;
    }
    Acceptor* result = acceptor.get();
    acceptors_.emplace(result, std::move(acceptor));
    HandshakeEvent event{HandshakeEvent::Kind::accepted};
    event.acceptor = result;
    publish(std::move(event));
    return result;
}

int Handshake::connect_qp(ibv_qp* qp, const DeviceAddress& peer, uint32_t qpn, uint32_t remote_psn,
                          uint32_t local_psn, unsigned peer_rd_atomic, const char** failed)
{
    const Settings& settings = *setup_.settings;
    verbs::RcAttributes rc{};
    rc.mtu = std::min(setup_.mtu, static_cast<ibv_mtu>(peer.mtu));
    rc.remote_qpn = qpn;
    rc.remote_psn = remote_psn;
    rc.local_psn = local_psn;
    rc.max_rd_atomic = static_cast<uint8_t>(std::min(setup_.max_rd_atomic, peer_rd_atomic));
    rc.max_dest_rd_atomic = static_cast<uint8_t>(setup_.max_dest_rd_atomic);
    rc.timeout = ack_timeout(settings);
    rc.retry_count = static_cast<uint8_t>(settings.retry_count);
    rc.rnr_retry = static_cast<uint8_t>(settings.rnr_retry_count);
    rc.min_rnr_timer = rnr_timer(settings.rnr_timeout);
    return verbs::connect_rc(qp, setup_.path, destination(setup_.address, peer), rc, failed);
}

void Handshake::handle_reply(const Packet& packet)
{
    auto found = connecting_.find(packet.connection);
    if (found == connecting_.end()) {
        return; // a repeated reply
    }
    Connection connection = found->second;
    const char* step;
    if (int error = connect_qp(connection.qp, packet.device, packet.qpn, packet.psn, connection.psn,
                               packet.max_dest_rd_atomic, &step);
        error != 0) {
        return fail(packet.connection, UCS_ERR_IO_ERROR,
                    std::string("ibv_modify_qp to ") + step + ": " + verbs::errno_text(error));
    }
    connecting_.erase(found);
    HandshakeEvent event{HandshakeEvent::Kind::connected};
    event.connection = packet.connection;
    publish(std::move(event));
}

void Handshake::handle_reject(const Packet& packet)
{
    if (auto found = connecting_.find(packet.connection); found != connecting_.end()) {
        if (packet.reason == RejectReason::stale_address) {
            retire_all(found->second.iface.incarnation);
        }
        fail(packet.connection, UCS_ERR_UNREACHABLE,
             packet.reason == RejectReason::stale_address
                 ? "the peer's address is stale: the interface it belonged to is closed"
                 : "the peer could not make a queue pair for us (its log says why)");
    }
}

void Handshake::retire(uint64_t peer, uint64_t connection)
{
    auto acceptors = by_peer_.find(peer);
    if (acceptors == by_peer_.end()) {
        return;
    }
    if (auto found = acceptors->second.find(connection); found != acceptors->second.end()) {
        retire(found->second);
        acceptors->second.erase(found);
        if (acceptors->second.empty()) {
            by_peer_.erase(acceptors);
        }
    }
}

void Handshake::retire_all(uint64_t peer)
{
    if (auto acceptors = by_peer_.extract(peer)) {
        for (auto& [connection, acceptor] : acceptors.mapped()) {
            retire(acceptor);
        }
    }
}

void Handshake::fail(uint64_t id, ucs_status_t status, std::string reason)
{
    connecting_.erase(id);
    HandshakeEvent event{HandshakeEvent::Kind::failed};
    event.connection = id;
    event.status = status;
    event.reason = std::move(reason);
    publish(std::move(event));
}

void Handshake::send_request(uint64_t id, Connection& connection)
{
    Packet request = packet(PacketType::request, connection.iface.incarnation, id);
    request.qpn = connection.qp->qp_num;
    request.psn = connection.psn;
    if (!channel_.send(request, destination(setup_.address, connection.device),
                       connection.iface.handshake_qpn)) {
        connection.next_send = Clock::now() + kBusyInterval;
        return;
    }
    // Lost, the timer repeats it.
    connection.next_send = Clock::now() + connection.interval;
    connection.interval = std::min<Clock::duration>(connection.interval * 2, kLongestInterval);
}

void Handshake::answer(const Packet& to, PacketType type, RejectReason reason,
                       const Acceptor* acceptor)
{
    Packet answer = packet(type, to.source, to.connection);
    answer.reason = reason;
    if (acceptor != nullptr) {
        answer.qpn = acceptor->qp->qp_num;
        answer.psn = acceptor->psn;
    }
    // Not sent or lost: the peer repeats its request.
    (void)channel_.send(answer, destination(setup_.address, to.device), to.handshake_qpn);
}

Packet Handshake::packet(PacketType type, uint64_t target, uint64_t connection) const
{
    Packet packet{};
    packet.magic = kPacketMagic;
    packet.version = kWireVersion;
    packet.type = type;
    packet.max_dest_rd_atomic = static_cast<uint8_t>(setup_.max_dest_rd_atomic);
    packet.source = setup_.incarnation;
    packet.target = target;
    packet.connection = connection;
    packet.handshake_qpn = channel_qpn_;
    packet.device = setup_.address;
    return packet;
}

void Handshake::retire(Acceptor* acceptor)
{
    retirements_.push_back({Clock::now() + kRetirementDelay, acceptor});
}

void Handshake::publish(HandshakeEvent event)
{
    events_.push_back(std::move(event));
    call_attention(attention_, wakeup_fd_);
}

void Handshake::arm_timer()
{
    auto next = Clock::time_point::max();
    for (const auto& [id, connection] : connecting_) {
        next = std::min({next, connection.next_send, connection.deadline});
    }
    for (const Retirement& retirement : retirements_) {
        next = std::min(next, retirement.due);
    }
    itimerspec spec{};
    if (next != Clock::time_point::max()) {
        auto delay = std::max<Clock::duration>(next - Clock::now(), 1ms);
        auto seconds = std::chrono::duration_cast<std::chrono::seconds>(delay);
        spec.it_value.tv_sec = seconds.count();
        spec.it_value.tv_nsec = std::chrono::nanoseconds(delay - seconds).count();
    }
    timerfd_settime(timer_fd_, 0, &spec, nullptr);
}

} // namespace gdr::rc
