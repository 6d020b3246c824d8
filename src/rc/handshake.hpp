// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Connecting to an interface: an endpoint's queue pair is paired with a queue pair that the other
// interface makes for it, by request and reply over the UD channel. Everything runs in UCX's
// asynchronous thread, so a peer that computes and does not poll is connected too. The interface's
// thread learns the outcome from take_events().
#pragma once

#include "rc/handshake_channel.hpp"
#include "rc/settings.hpp"

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

extern "C" {
#include <uct/api/uct.h>
}

namespace gdr::rc {

// The queue pair an interface made for a peer's endpoint: it receives, and grants windows.
struct Acceptor {
    verbs::QueuePair qp;
    uint64_t peer;       // incarnation of the peer's interface
    uint64_t connection; // the peer's name for it
    uint32_t psn;
    // used by the interface's thread alone:
    unsigned grants_due = 0;
    unsigned grants_in_flight = 0;
    bool failed = false;
};

struct HandshakeEvent {
    enum class Kind {
        connected, // connection
        failed,    // connection, status, reason
        accepted,  // acceptor: exists from now on
        retired,   // acceptor: destroy it with Handshake::destroy() once the CQ has been empty
    };
    Kind kind;
    uint64_t connection = 0;
    ucs_status_t status = UCS_OK;
    std::string reason{};
    Acceptor* acceptor = nullptr;
};

// What the handshake needs to know of the interface it serves.
struct HandshakeSetup {
    ibv_context* context;
    ibv_pd* pd;
    ibv_cq* cq;   // of acceptors
    ibv_srq* srq; // of acceptors
    verbs::Path path;
    DeviceAddress address;
    uint64_t incarnation;
    unsigned max_rd_atomic;      // of the device, as initiator
    unsigned max_dest_rd_atomic; // of the device, as responder
    ibv_mtu mtu;                 // largest to use
    const Settings* settings;
};

class Handshake {
  public:
    // on_event: called from any thread, holding a lock: must only flag and wake the interface.
    // Throws verbs::Error.
    Handshake(const HandshakeSetup& setup, std::atomic<bool>& attention, int wakeup_fd);
    ~Handshake();
    Handshake(const Handshake&) = delete;
    Handshake& operator=(const Handshake&) = delete;

    uint32_t qpn() const { return channel_qpn_; }

    // The calls below are the interface's thread's.

    // qp (in INIT) is to be connected; it must stay until the event has been taken or cancel() was
    // called.
    void connect(uint64_t connection, ibv_qp* qp, const DeviceAddress& device,
                 const IfaceAddress& iface);

    // The endpoint goes away: forgets the connection and tells the peer.
    void disconnect(uint64_t connection, const DeviceAddress& device, const IfaceAddress& iface);

    // The peer is known dead: its acceptors retire.
    void peer_failed(uint64_t peer);

    // So does one that cannot send to its peer.
    void acceptor_failed(const Acceptor& acceptor);

    std::vector<HandshakeEvent> take_events();
    void destroy(Acceptor* acceptor);

  private:
    using Clock = std::chrono::steady_clock;

    struct Connection {
        ibv_qp* qp;
        uint32_t psn;
        DeviceAddress device;
        IfaceAddress iface;
        Clock::time_point deadline;
        Clock::time_point next_send;
        Clock::duration interval;
    };
    struct Retirement {
        Clock::time_point due;
        Acceptor* acceptor;
    };

    static void on_readable(int id, unsigned char events, void* self);
    static void on_timer(int id, unsigned char events, void* self);

    // All with lock_ held.
    void handle(const Packet& packet);
    void handle_request(const Packet& packet);
    void handle_reply(const Packet& packet);
    void handle_reject(const Packet& packet);
    void retire(uint64_t peer, uint64_t connection);
    void retire_all(uint64_t peer);
    Acceptor* accept(const Packet& packet, std::string* reason);
    int connect_qp(ibv_qp* qp, const DeviceAddress& peer, uint32_t qpn, uint32_t remote_psn,
                   uint32_t local_psn, unsigned peer_rd_atomic, const char** failed);
    void fail(uint64_t connection, ucs_status_t status, std::string reason);
    void send_request(uint64_t id, Connection& connection);
    void answer(const Packet& to, PacketType type, RejectReason reason, const Acceptor* acceptor);
    Packet packet(PacketType type, uint64_t target, uint64_t connection) const;
    void retire(Acceptor* acceptor);
    void publish(HandshakeEvent event);
    void arm_timer();

    const HandshakeSetup setup_;
    std::atomic<bool>& attention_;
    const int wakeup_fd_;

    std::mutex lock_; // control path only; the data path never takes it
    HandshakeChannel channel_;
    const uint32_t channel_qpn_;
    int timer_fd_;
    std::unordered_map<uint64_t, Connection> connecting_;
    std::unordered_map<Acceptor*, std::unique_ptr<Acceptor>> acceptors_;
    std::unordered_map<uint64_t, std::unordered_map<uint64_t, Acceptor*>> by_peer_;
    std::vector<Retirement> retirements_;
    std::vector<HandshakeEvent> events_;
};

} // namespace gdr::rc
