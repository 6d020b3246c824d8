// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The handshake protocol: requests and farewells are repeated until answered, and each repeated
// request is answered again. Packets are answered only if they prove that the sender was given the
// passive side's address.
#include "rc/connect/handshake.hpp"

#include "abi/host.hpp"
#include "log/log.hpp"
#include "verbs/error.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/timerfd.h>
#include <unistd.h>
#include <utility>

namespace gdr::rc {
namespace {

using namespace std::chrono_literals;

// The most packets of one turn: everybody shares the async thread, even if somebody floods us.
constexpr unsigned kPacketsPerTurn = 64;
constexpr auto kNextTurn = 1ms;

} // namespace

Handshake::Handshake(const HandshakeSetup& setup, Attention& attention)
    : channel_(setup.context, setup.pd, setup.path, setup.iface.handshake_qkey, tasks_),
      sender_(setup, channel_), events_(attention), ending_([this](verbs::QueuePair qp) {
          HandshakeEvent event{HandshakeEvent::Kind::ending};
          event.ended = std::move(qp);
          events_.publish(std::move(event));
      }),
      passive_(sender_, events_, ending_),
      active_(sender_, events_, [this](uint64_t peer) { passive_.end_all_of(peer); }),
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
    tasks_.detach();
    tasks_.run(); // farewells above all
    channel_.stop_resolving();
    tasks_.run();
    channel_.drain();
    close(timer_fd_);
}

// ---- for the interface's thread
void Handshake::post(AsyncTasks::Task task)
{
    tasks_.post([this, task = std::move(task)] { turn(task); });
}

void Handshake::connect(uint64_t id, ibv_qp* qp, const DeviceAddress& device,
                        const IfaceAddress& iface)
{
    post([this, id, qp, device, iface] { active_.begin(id, qp, device, iface); });
}

void Handshake::disconnect(uint64_t id, verbs::QueuePair qp)
{
    // std::function needs copyable captures.
    post([this, id, raw = qp.release()] {
        if (raw != nullptr) {
            ending_.end(verbs::QueuePair(raw));
        }
        active_.leave(id);
    });
}

void Handshake::peer_failed(uint64_t peer)
{
    post([this, peer] { passive_.end_all_of(peer); });
}

void Handshake::accepted_failed(const ConnectionName& name)
{
    post([this, name] { passive_.end(name); });
}

void Handshake::give_up()
{
    post([this] { passive_.give_up(); });
}

void Handshake::gone()
{
    tasks_.post([this] { ending_.gone(); });
}

void Handshake::receives_done(ibv_qp* qp)
{
    tasks_.post([this, qp] { ending_.receives_done(qp); });
}

// ---- turns of the async thread
void Handshake::turn(const AsyncTasks::Task& step)
{
    AsyncTasks::attempt(step);
    arm_timer();
}

void Handshake::on_readable(int, unsigned char, void* self)
{
    auto& handshake = *static_cast<Handshake*>(self);
    handshake.receive();
    handshake.arm_timer();
}

void Handshake::receive()
{
    more_ = false;
    try {
        for (unsigned i = 0; i < kPacketsPerTurn; ++i) {
            auto packet = channel_.receive();
            if (!packet) {
                return;
            }
            handle(*packet);
        }
        more_ = true;
        channel_.pause(); // or the descriptor would stay readable
    } catch (const std::exception& error) {
        gdr_log(error, "%s connects no further endpoints: %s",
                ibv_get_device_name(sender_.setup().context->device), error.what());
    }
}

void Handshake::on_timer(int fd, unsigned char, void* arg)
{
    auto& self = *static_cast<Handshake*>(arg);
    uint64_t expirations;
    (void)!read(fd, &expirations, sizeof(expirations)); // nonblocking: a stale event reads nothing
    self.receive(); // a late answer comes before the end of patience
    self.turn([&self] { self.run_timers(); });
}

void Handshake::run_timers()
{
    active_.run_timers();
    ending_.expire();
    passive_.ask_peers();
}

void Handshake::arm_timer()
{
    auto next = std::min({active_.next(), passive_.next(), ending_.next()});
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

// ---- received packets
void Handshake::handle(const Packet& packet)
{
    const HandshakeSetup& setup = sender_.setup();
    if (packet.target != setup.iface.incarnation) {
        return; // meant for an earlier interface with our queue pair number
    }
    const bool to_passive_side = packet.type == PacketType::request ||
                                 packet.type == PacketType::farewell ||
                                 packet.type == PacketType::confirmation;
    const HashKey* const key = to_passive_side ? &setup.iface.key : active_.key(packet.connection);
    if (key == nullptr) {
        return; // a repeated answer, or a question for a destroyed endpoint
    }
    if (packet.proof != proof(packet, *key)) {
        return ignore(packet, "it does not prove that its sender was given our address");
    }
    if (const char* reason =
            unreachable_reason(setup.device, setup.iface.segment_size, &packet.device, nullptr)) {
        return ignore(packet, reason);
    }
    if (packet.type == PacketType::request) {
        // Resolve the address first: on RoCE connecting a queue pair to an unresolvable neighbour
        // blocks in the kernel just as long.
        return channel_.when_resolved(destination(setup.device, packet.device),
                                      [this, packet] { passive_.handle(packet); });
    }
    return to_passive_side ? passive_.handle(packet) : active_.handle(packet);
}

void Handshake::ignore(const Packet& packet, const char* reason)
{
    if (!std::exchange(logged_ignored_, true)) {
        gdr_log(diag,
                "a packet of the handshake, which names %s as its sender's, is ignored: %s "
                "(further ones are ignored silently)",
                to_string(packet.device).c_str(), reason);
    }
}

} // namespace gdr::rc
