// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Connecting to an interface. The other interface makes a queue pair for an endpoint's queue pair,
// by request and reply over the UD channel. UCX's async thread does all of it, including kernel
// calls that wait for the network: so a peer that computes and does not poll is connected too, and
// no other thread waits. The interface's thread learns the outcome from take_events().
#pragma once

#include "rc/accepted_connections.hpp"
#include "rc/ending.hpp"
#include "rc/handshake_channel.hpp"
#include "rc/receives.hpp"
#include "rc/settings.hpp"

#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
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

// What the handshake needs to know of its interface.
struct HandshakeSetup {
    ibv_context* context;
    ibv_pd* pd;
    ibv_cq* cq;              // of accepted connections
    ReceiveQueues* receives; // of accepted connections
    verbs::Path path;
    int remote_access; // of accepted connections
    DeviceAddress device;
    IfaceAddress iface;          // without the channel's queue pair number
    unsigned max_rd_atomic;      // of the device, as initiator
    unsigned max_dest_rd_atomic; // of the device, as responder
    ibv_mtu mtu;                 // largest to use
    const Settings* settings;
};

class Handshake {
  public:
    // Throws std::exception.
    Handshake(const HandshakeSetup& setup, std::atomic<bool>& attention, int wakeup_fd);
    ~Handshake();
    Handshake(const Handshake&) = delete;
    Handshake& operator=(const Handshake&) = delete;

    const IfaceAddress& address() const { return setup_.iface; }

    EndingQueuePairs& ending() { return ending_; }

    // Only the interface's thread makes the calls below. None waits for the kernel.

    // Connects qp, which is in INIT. It must exist until the event has been taken or disconnect()
    // was called.
    void connect(uint64_t connection, ibv_qp* qp, const DeviceAddress& device,
                 const IfaceAddress& iface);

    // The endpoint is destroyed: forgets the connection, tells the peer and ends qp. NULL: the
    // queue pair is destroyed already.
    void disconnect(uint64_t connection, verbs::QueuePair qp);

    // The peer is known dead: the connections accepted from it end.
    void peer_failed(uint64_t peer);

    // Ends an accepted connection that cannot send to its peer, or whose peer violates the
    // protocol.
    void accepted_failed(const ConnectionName& name);

    // The interface is broken: the connections that it accepted end, and it accepts no new ones.
    void give_up();

    // The last receive of a queue pair that is ending, or about to, has come back.
    void receives_done(ibv_qp* qp);

    std::vector<HandshakeEvent> take_events();
    void gone();

  private:
    using Clock = std::chrono::steady_clock;

    // The connection of an endpoint.
    struct Connection {
        enum class State { connecting, connected, leaving };
        State state = State::connecting;
        ibv_qp* qp;
        uint32_t psn;
        DeviceAddress device;
        IfaceAddress iface;
        Clock::time_point deadline;
        Clock::time_point next; // in timers_, unless connected
        Clock::duration interval;
        bool full = false; // the peer answered that it has too many
    };

    static void on_readable(int id, unsigned char events, void* self);
    static void on_timer(int id, unsigned char events, void* self);

    // All in the async thread.
    void begin(uint64_t id, ibv_qp* qp, const DeviceAddress& device, const IfaceAddress& iface);
    void leave(uint64_t id, verbs::QueuePair qp);
    void receive();
    void run_timers();
    void handle(const Packet& packet);
    void handle_request(const Packet& packet);
    void handle_farewell(const Packet& packet);
    void handle_reply(uint64_t id, Connection& connection, const Packet& packet);
    void handle_reject(uint64_t id, Connection& connection, const Packet& packet);
    const AcceptedConnection* accept(const Packet& packet);
    void refuse(const Packet& packet, RejectReason reason, const std::string& why);
    void end(std::vector<verbs::QueuePair> qps);
    void ask_peers();
    int connect_qp(ibv_qp* qp, const DeviceAddress& peer, const Packet& packet, uint32_t local_psn,
                   const char** failed);
    void fail(uint64_t connection, ucs_status_t status, std::string reason);
    void send_packet(uint64_t id, Connection& connection, PacketType type);
    void repeat(uint64_t id, Connection& connection);
    void expire(uint64_t id, Connection& connection);
    void schedule(uint64_t id, Connection& connection, Clock::time_point next);
    void forget(uint64_t id);
    void answer(const Packet& to, PacketType type, RejectReason reason = RejectReason::none,
                const AcceptedConnection* accepted = nullptr);
    Packet packet(PacketType type, uint64_t target, uint64_t connection) const;
    void send(Packet packet, const HashKey& key, const DeviceAddress& device, uint32_t qpn,
              uint32_t qkey);
    void publish(HandshakeEvent event);
    void arm_timer();

    HandshakeSetup setup_;
    std::atomic<bool>& attention_;
    const int wakeup_fd_;

    AsyncTasks tasks_;
    HandshakeChannel channel_;
    EndingQueuePairs ending_;
    int timer_fd_;
    std::random_device random_; // slow to create in a virtual machine: it probes the CPU
    bool more_ = false;         // packets wait for the next turn
    bool given_up_ = false;
    std::unordered_map<uint64_t, Connection> connections_;
    std::set<std::pair<Clock::time_point, uint64_t>> timers_; // of connections
    AcceptedConnections accepted_;
    bool logged_ignored_ = false;
    Clock::time_point next_complaint_{};

    std::mutex lock_; // for the events
    std::vector<HandshakeEvent> events_;
};

} // namespace gdr::rc
