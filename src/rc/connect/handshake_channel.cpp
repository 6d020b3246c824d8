// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Sends and receives handshake packets.
#include "rc/connect/handshake_channel.hpp"

#include "log/log.hpp"
#include "verbs/completion_queue.hpp"
#include "verbs/error.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <utility>

namespace gdr::rc {
namespace {

constexpr size_t kMostWaiting = 1 << 16; // further packets are dropped; important ones are repeated
constexpr auto kDrainPatience = std::chrono::milliseconds(100);

} // namespace

HandshakeChannel::HandshakeChannel(ibv_context* context, ibv_pd* pd, const verbs::Path& path,
                                   uint32_t qkey, AsyncTasks& tasks)
    : memory_(pd, (kReceives + kSends) * kSlot + kRest), path_(path), qkey_(qkey),
      channel_(ibv_create_comp_channel(context)), handles_(pd, path, tasks)
{
    if (!channel_) {
        throw verbs::Error("ibv_create_comp_channel for the handshake", errno);
    }
    fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
    cq_.reset(ibv_create_cq(context, kReceives + kSends, nullptr, channel_.get(), 0));
    if (!cq_) {
        throw verbs::Error("ibv_create_cq for the handshake", errno);
    }
    ibv_qp_cap granted = capabilities();
    qp_ = verbs::create_ud(pd, cq_.get(), path, qkey, &granted);
    post_receives();
    if (int error = ibv_req_notify_cq(cq_.get(), 0); error != 0) {
        throw verbs::Error("ibv_req_notify_cq for the handshake", error);
    }
}

ibv_qp_cap HandshakeChannel::capabilities()
{
    ibv_qp_cap capabilities{};
    capabilities.max_send_wr = kSends;
    capabilities.max_recv_wr = kReceives;
    capabilities.max_send_sge = 1;
    capabilities.max_recv_sge = 2;
    return capabilities;
}

void HandshakeChannel::post_receives()
{
    for (unsigned i = 0; i < kReceives; ++i) {
        post_receive(i);
    }
}

// Any datagram fits, because one that does not fit would put the queue pair into the error state. A
// datagram longer than a packet is ignored, so all receives share the room for the rest.
void HandshakeChannel::post_receive(unsigned index)
{
    ibv_sge pieces[] = {
        {reinterpret_cast<uintptr_t>(slot(index)), kSlot, memory_.lkey()},
        {reinterpret_cast<uintptr_t>(slot(kReceives + kSends)), kRest, memory_.lkey()}};
    ibv_recv_wr wr{index, nullptr, pieces, 2};
    ibv_recv_wr* refused;
    if (int error = ibv_post_recv(qp_.get(), &wr, &refused); error != 0) {
        throw verbs::Error("ibv_post_recv for the handshake", error);
    }
}

void HandshakeChannel::send(const Packet& packet, const verbs::Destination& destination,
                            uint32_t qpn, uint32_t qkey)
{
    ibv_ah* handle =
        waiting_.empty() && sends_in_flight_ < kSends ? handles_.find(destination) : nullptr;
    if (handle != nullptr) {
        return post_send({packet, destination, qpn, qkey}, handle);
    }
    if (waiting_.size() < kMostWaiting) {
        waiting_.push_back({packet, destination, qpn, qkey});
        send_waiting();
    }
}

void HandshakeChannel::send_waiting()
{
    while (sends_in_flight_ < kSends && !waiting_.empty()) {
        Outgoing outgoing = waiting_.front();
        waiting_.pop_front();
        handles_.with(outgoing.destination, [this, outgoing](ibv_ah* handle) {
            if (sends_in_flight_ < kSends) {
                post_send(outgoing, handle);
            } else {
                waiting_.push_back(outgoing);
            }
        });
    }
}

void HandshakeChannel::when_resolved(const verbs::Destination& destination, AsyncTasks::Task task)
{
    handles_.with(destination, [task = std::move(task)](ibv_ah*) { task(); });
}

void HandshakeChannel::post_send(const Outgoing& outgoing, ibv_ah* handle)
{
    // Sends complete in order, so the slots are a ring.
    std::byte* buffer = slot(kReceives + next_send_);
    std::memcpy(buffer, &outgoing.packet, sizeof(Packet));
    ibv_sge sge{reinterpret_cast<uintptr_t>(buffer), sizeof(Packet), memory_.lkey()};
    ibv_send_wr wr{};
    wr.wr_id = kReceives;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud.ah = handle;
    wr.wr.ud.remote_qpn = outgoing.qpn;
    wr.wr.ud.remote_qkey = outgoing.qkey;
    ibv_send_wr* refused;
    if (ibv_post_send(qp_.get(), &wr, &refused) != 0) {
        return; // like a lost packet
    }
    next_send_ = (next_send_ + 1) % kSends;
    ++sends_in_flight_;
}

std::optional<Packet> HandshakeChannel::poll()
{
    ibv_wc wc;
    while (ibv_poll_cq(cq_.get(), 1, &wc) > 0) {
        if (wc.status != IBV_WC_SUCCESS) {
            restart(wc);
            return std::nullopt; // lets others run, in case it fails again and again
        }
        if (wc.wr_id >= kReceives) {
            --sends_in_flight_;
            send_waiting();
            continue;
        }
        Packet packet;
        std::memcpy(&packet, slot(wc.wr_id) + kGrh, sizeof(packet));
        post_receive(wc.wr_id);
        if (wc.byte_len == kGrh + sizeof(packet) && packet.magic == kPacketMagic &&
            packet.version == kWireVersion && packet.handshake_qpn == wc.src_qp) {
            return packet;
        }
    }
    return std::nullopt;
}

// Packets under way are lost; whoever needs them repeats them.
void HandshakeChannel::restart(const ibv_wc& failure)
{
    log::message(std::exchange(logged_failure_, true) ? log::Level::diag : log::Level::warn,
                 __FILE__, __LINE__,
                 "the handshake's queue pair on %s has failed and is set up anew: %s (%s)",
                 ibv_get_device_name(qp_->context->device), ibv_wc_status_str(failure.status),
                 verbs::completion_cause(failure.status));
    verbs::restart_ud(qp_.get(), path_, qkey_);
    for (ibv_wc wc; ibv_poll_cq(cq_.get(), 1, &wc) > 0;) {
    }
    sends_in_flight_ = 0;
    next_send_ = 0;
    post_receives();
    send_waiting();
}

std::optional<Packet> HandshakeChannel::receive()
{
    if (auto packet = poll()) {
        return packet;
    }
    // Consume events and request the notification before the last poll, so that none is missed.
    pause();
    if (int error = ibv_req_notify_cq(cq_.get(), 0); error != 0) {
        throw verbs::Error("ibv_req_notify_cq for the handshake", error);
    }
    return poll();
}

void HandshakeChannel::pause()
{
    (void)verbs::take_events(channel_.get(), cq_.get());
}

void HandshakeChannel::drain()
{
    auto until = std::chrono::steady_clock::now() + kDrainPatience;
    while (sends_in_flight_ > 0 && std::chrono::steady_clock::now() < until) {
        (void)poll();
    }
}

} // namespace gdr::rc
