// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Somebody on the fabric with plain verbs, who sends what he likes.
#pragma once

#include "rc_support.hpp"

#include "rc/connect/wire.hpp"
#include "verbs/device.hpp"
#include "verbs/queue_pair.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <optional>

namespace rc_test {

using namespace gdr::rc;
namespace verbs = gdr::verbs;

template <typename T>
T parse(const std::vector<char>& bytes)
{
    T value;
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
}

// A UD queue pair and, when it is connected, an RC one, on an HCA of its own.
class Stranger {
  public:
    Stranger() : device_(emulated_hca(1)), pd_(ibv_alloc_pd(device_.context()))
    {
        cq_.reset(ibv_create_cq(device_.context(), 1024, nullptr, nullptr, 0));
        mr_.reset(ibv_reg_mr(pd_.get(), memory_, sizeof(memory_), IBV_ACCESS_LOCAL_WRITE));
        path_.port = 1;
        path_.hop_limit = 64;
        ibv_qp_cap capabilities{};
        capabilities.max_send_wr = capabilities.max_recv_wr = kSlots;
        capabilities.max_send_sge = capabilities.max_recv_sge = 1;
        ud_ = verbs::create_ud(pd_.get(), cq_.get(), path_, kQkey, &capabilities);
        for (unsigned i = 1; i < kSlots; ++i) {
            ibv_sge sge = piece(i, kSlot);
            ibv_recv_wr wr{i, nullptr, &sge, 1}, *refused;
            ibv_post_recv(ud_.get(), &wr, &refused);
        }
    }

    // As the interface at to would say it to itself, but from here.
    Packet packet(const Address& to, PacketType type, uint64_t connection)
    {
        auto iface = parse<IfaceAddress>(to.iface);
        Packet packet{};
        packet.magic = kPacketMagic;
        packet.version = kWireVersion;
        packet.type = type;
        packet.max_dest_rd_atomic = 4;
        packet.source = kSource;
        packet.target = iface.incarnation;
        packet.connection = connection;
        packet.handshake_qpn = ud_->qp_num;
        packet.handshake_qkey = kQkey;
        packet.device = parse<DeviceAddress>(to.device);
        ibv_port_attr port{};
        ibv_query_port(device_.context(), 1, &port);
        packet.device.lid = port.lid;
        packet.device.gid[0] = 0xfe;
        return packet;
    }

    void send(const Address& to, const void* data, size_t length, uint32_t qkey)
    {
        auto iface = parse<IfaceAddress>(to.iface);
        auto device = parse<DeviceAddress>(to.device);
        if (!ah_) {
            ibv_ah_attr vector = verbs::address_vector(path_, destination(device, device));
            ah_.reset(ibv_create_ah(pd_.get(), &vector));
        }
        std::memcpy(memory_, data, length);
        ibv_sge sge = piece(0, length);
        ibv_send_wr wr{}, *refused;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.ud = {ah_.get(), iface.handshake_qpn, qkey};
        if (ibv_post_send(ud_.get(), &wr, &refused) == 0) {
            await_sent();
        }
    }

    void send(const Address& to, Packet packet, const HashKey& key)
    {
        packet.proof = proof(packet, key);
        send(to, &packet, sizeof(packet), parse<IfaceAddress>(to.iface).handshake_qkey);
    }

    // The next answer within so long.
    std::optional<Packet> receive(double seconds)
    {
        const auto until =
            std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
        do {
            ibv_wc wc;
            if (ibv_poll_cq(cq_.get(), 1, &wc) > 0 && wc.qp_num == ud_->qp_num &&
                (wc.opcode & IBV_WC_RECV)) {
                Packet packet;
                std::memcpy(&packet, memory_ + wc.wr_id * kSlot + kGrh, sizeof(packet));
                ibv_sge sge = piece(static_cast<unsigned>(wc.wr_id), kSlot);
                ibv_recv_wr wr{wc.wr_id, nullptr, &sge, 1}, *refused;
                ibv_post_recv(ud_.get(), &wr, &refused);
                return packet;
            }
        } while (std::chrono::steady_clock::now() < until);
        return std::nullopt;
    }

    // With the address, as it should be done.
    void connect(const Address& to, uint64_t connection)
    {
        ibv_qp_cap capabilities{};
        capabilities.max_send_wr = kSlots;
        capabilities.max_recv_wr = 1;
        capabilities.max_send_sge = capabilities.max_recv_sge = 1;
        rc_ = verbs::create_rc(pd_.get(), cq_.get(), nullptr, path_, device_.remote_access(),
                               &capabilities);
        Packet request = packet(to, PacketType::request, connection);
        request.qpn = rc_->qp_num;
        request.psn = 1;
        send(to, request, parse<IfaceAddress>(to.iface).key);
        auto reply = receive(5);
        ASSERT_TRUE(reply && reply->type == PacketType::reply);
        verbs::RcAttributes attributes{};
        attributes.mtu = IBV_MTU_1024;
        attributes.remote_qpn = reply->qpn;
        attributes.remote_psn = reply->psn;
        attributes.local_psn = 1;
        attributes.timeout = 10;
        attributes.retry_count = 3;
        attributes.rnr_retry = 7;
        auto device = parse<DeviceAddress>(to.device);
        const char* step;
        ASSERT_EQ(
            verbs::connect_rc(rc_.get(), path_, destination(device, device), attributes, &step), 0);
    }

    // The status with which it completes.
    ibv_wc_status post(ibv_wr_opcode opcode, uint32_t immediate, size_t length)
    {
        ibv_sge sge = piece(0, length);
        ibv_send_wr wr{}, *refused;
        wr.sg_list = &sge;
        wr.num_sge = length > 0;
        wr.opcode = opcode;
        wr.imm_data = immediate;
        wr.send_flags = IBV_SEND_SIGNALED;
        EXPECT_EQ(ibv_post_send(rc_.get(), &wr, &refused), 0);
        return await_sent();
    }

  private:
    static constexpr uint32_t kQkey = 77;
    static constexpr uint64_t kSource = 0x5eed5eed;
    static constexpr size_t kGrh = 40;
    static constexpr size_t kSlot = 512;
    static constexpr unsigned kSlots = 256;

    ibv_wc_status await_sent()
    {
        ibv_wc wc{};
        for (;;) {
            if (ibv_poll_cq(cq_.get(), 1, &wc) > 0 &&
                (wc.status != IBV_WC_SUCCESS || !(wc.opcode & IBV_WC_RECV))) {
                return wc.status;
            }
        }
    }

    ibv_sge piece(unsigned slot, size_t length)
    {
        return {reinterpret_cast<uintptr_t>(memory_ + slot * kSlot), static_cast<uint32_t>(length),
                mr_->lkey};
    }

    char memory_[kSlots * kSlot] = {};
    verbs::Device device_;
    verbs::ProtectionDomain pd_;
    verbs::CompletionQueue cq_;
    verbs::MemoryRegion mr_;
    verbs::Path path_{};
    verbs::AddressHandle ah_;
    verbs::QueuePair ud_;
    verbs::QueuePair rc_;
};

} // namespace rc_test
