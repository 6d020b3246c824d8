// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The UD queue pair over which interfaces exchange handshake packets: small datagrams that may be
// lost or duplicated, or come from anybody. It is restarted when it fails.
#pragma once

#include "rc/connect/address_handles.hpp"
#include "rc/connect/wire.hpp"
#include "rc/queues/registered_memory.hpp"

#include <deque>
#include <optional>

namespace gdr::rc {

// Used only by UCX's async thread.
class HandshakeChannel {
  public:
    // Throws verbs::Error.
    HandshakeChannel(ibv_context* context, ibv_pd* pd, const verbs::Path& path, uint32_t qkey,
                     AsyncTasks& tasks);

    // Of its queue pair.
    static ibv_qp_cap capabilities();

    uint32_t qpn() const { return qp_->qp_num; }
    int fd() const { return channel_->fd; } // readable: receive() may return a packet

    // Best effort: sends when the address is resolved and a buffer is free.
    void send(const Packet& packet, const verbs::Destination& destination, uint32_t qpn,
              uint32_t qkey);

    // Runs task when the address is resolved; never if it does not resolve.
    void when_resolved(const verbs::Destination& destination, AsyncTasks::Task task);

    // The next packet with the right size, magic and version; nothing if there is none. Arms fd()
    // again before it returns nothing.
    std::optional<Packet> receive();

    // fd() is not readable until receive() has armed it again.
    void pause();

    // Resolves no further addresses and waits for those under way.
    void stop_resolving() { handles_.finish(); }

    // Waits a short time until the HCA has sent everything.
    void drain();

  private:
    static constexpr unsigned kSends = 64;
    static constexpr unsigned kReceives = 256;
    static constexpr size_t kGrh = 40;
    static constexpr size_t kSlot = 256;
    static constexpr size_t kRest = 4096; // the largest MTU
    static_assert(kGrh + sizeof(Packet) <= kSlot);
    static_assert(AddressHandles::kMost > kSends, "a handle stays while a datagram uses it");

    struct Outgoing {
        Packet packet;
        verbs::Destination destination;
        uint32_t qpn;
        uint32_t qkey;
    };

    void post_receive(unsigned slot);
    void post_receives();
    void restart(const ibv_wc& failure);
    void post_send(const Outgoing& outgoing, ibv_ah* handle);
    void send_waiting();
    std::optional<Packet> poll();
    std::byte* slot(unsigned index) const { return memory_.data() + index * kSlot; }

    // kReceives slots, then kSends slots, then room for the rest of any datagram that is not a
    // packet.
    RegisteredMemory memory_;
    const verbs::Path path_;
    const uint32_t qkey_;
    verbs::CompletionChannel channel_;
    verbs::CompletionQueue cq_;
    AddressHandles handles_;
    verbs::QueuePair qp_;
    unsigned next_send_ = 0;
    unsigned sends_in_flight_ = 0;
    bool logged_failure_ = false;
    std::deque<Outgoing> waiting_; // for a buffer
};

} // namespace gdr::rc
