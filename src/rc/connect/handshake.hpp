// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Connecting to an interface. The other interface makes a queue pair for an endpoint's queue pair,
// by request and reply over the UD channel. UCX's async thread does all of it, including kernel
// calls that wait for the network: so a peer that computes and does not poll is connected too, and
// no other thread waits. The interface's thread learns the outcome from take_events().
#pragma once

#include "rc/connect/active_side.hpp"
#include "rc/connect/async_tasks.hpp"
#include "rc/connect/ending.hpp"
#include "rc/connect/handshake_channel.hpp"
#include "rc/connect/handshake_events.hpp"
#include "rc/connect/handshake_sender.hpp"
#include "rc/connect/passive_side.hpp"

#include <chrono>
#include <vector>

namespace gdr::rc {

class Handshake {
  public:
    // Throws std::exception.
    Handshake(const HandshakeSetup& setup, Attention& attention);
    ~Handshake();
    Handshake(const Handshake&) = delete;
    Handshake& operator=(const Handshake&) = delete;

    const IfaceAddress& address() const { return sender_.setup().iface; }

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

    std::vector<HandshakeEvent> take_events() { return events_.take(); }
    void gone();

  private:
    using Clock = std::chrono::steady_clock;

    static void on_readable(int id, unsigned char events, void* self);
    static void on_timer(int id, unsigned char events, void* self);
    void post(AsyncTasks::Task task); // for the async thread

    // All in the async thread. A step that throws ends; the timer is set in any case.
    void turn(const AsyncTasks::Task& step);
    void receive();
    void run_timers();
    void handle(const Packet& packet);
    void ignore(const Packet& packet, const char* reason);
    void arm_timer();

    AsyncTasks tasks_;
    HandshakeChannel channel_;
    HandshakeSender sender_;
    HandshakeEvents events_;
    EndingQueuePairs ending_;
    PassiveSide passive_;
    ActiveSide active_;
    int timer_fd_;
    bool more_ = false; // packets wait for the next turn
    bool logged_ignored_ = false;
};

} // namespace gdr::rc
