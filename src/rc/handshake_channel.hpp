// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The UD queue pair over which interfaces exchange handshake packets: small datagrams that may be
// lost, duplicated or come from anybody.
#pragma once

#include "rc/registered_memory.hpp"
#include "rc/wire.hpp"

#include <cstring>
#include <map>
#include <optional>

namespace gdr::rc {

// Not thread safe: the handshake serialises its use.
class HandshakeChannel {
  public:
    // Throws verbs::Error.
    HandshakeChannel(ibv_context* context, ibv_pd* pd, const verbs::Path& path);

    uint32_t qpn() const { return qp_->qp_num; }
    int fd() const { return channel_->fd; } // readable: receive() may have something

    // Best effort. False: no buffer is free or no address handle could be made; try again later.
    bool send(const Packet& packet, const verbs::Destination& destination, uint32_t qpn);

    // The next packet that has the right size, magic and version; nothing when there is none. Arms
    // the channel's fd again before it returns nothing.
    std::optional<Packet> receive();

  private:
    static constexpr unsigned kSends = 64;
    static constexpr unsigned kReceives = 256;
    static constexpr size_t kGrh = 40;
    static constexpr size_t kSlot = 128;
    static_assert(kGrh + sizeof(Packet) <= kSlot);

    struct ByAddress {
        bool operator()(const verbs::Destination& a, const verbs::Destination& b) const
        {
            int order = std::memcmp(a.gid.raw, b.gid.raw, sizeof(a.gid.raw));
            return order != 0 ? order < 0 : a.lid < b.lid;
        }
    };

    void post_receive(unsigned slot);
    std::optional<Packet> poll();
    ibv_ah* address_handle(const verbs::Destination& destination);
    std::byte* slot(unsigned index) const { return memory_.data() + index * kSlot; }

    ibv_pd* pd_;
    verbs::Path path_;
    RegisteredMemory memory_; // kReceives slots, then kSends slots
    verbs::CompletionChannel channel_;
    verbs::CompletionQueue cq_;
    std::map<verbs::Destination, verbs::AddressHandle, ByAddress> address_handles_;
    verbs::QueuePair qp_;
    unsigned next_send_ = 0;
    unsigned sends_in_flight_ = 0;
};

} // namespace gdr::rc
