// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Strangers on the fabric: a program with plain verbs that knows everything but what an interface's
// address tells, or that was given the address and does not keep to the protocol.
#include "rc_support.hpp"

#include "emu/softhca/softhca.h"
#include "rc/wire.hpp"
#include "verbs/device.hpp"
#include "verbs/error.hpp"
#include "verbs/queue_pair.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <unistd.h>

namespace rc_test {
namespace {

using namespace gdr::rc;
namespace verbs = gdr::verbs;

constexpr uint64_t kSource = 0x5eed5eed;
constexpr size_t kGrh = 40;
constexpr size_t kSlot = 512;
constexpr unsigned kSlots = 64;

long queue_pairs()
{
    auto* count = reinterpret_cast<void (*)(struct softhca_counters*)>(
        dlsym(RTLD_DEFAULT, "softhca_counters"));
    struct softhca_counters now;
    count(&now);
    return static_cast<long>(now.queue_pairs - now.queue_pairs_destroyed);
}

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
    Stranger() : device_("softhca1"), pd_(ibv_alloc_pd(device_.context()))
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
        if (ibv_post_send(ud_.get(), &wr, &refused) == 0)
            await_sent();
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
        rc_ = verbs::create_rc(pd_.get(), cq_.get(), nullptr, path_, &capabilities);
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

    ibv_wc_status await_sent()
    {
        ibv_wc wc{};
        for (;;) {
            if (ibv_poll_cq(cq_.get(), 1, &wc) > 0 &&
                (wc.status != IBV_WC_SUCCESS || !(wc.opcode & IBV_WC_RECV)))
                return wc.status;
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

class Attack : public testing::Test {
  protected:
    Node node;
    Address address = node.address();
    IfaceAddress secret = parse<IfaceAddress>(address.iface);
    Stranger stranger;

    // Still connects, and is reached.
    void expect_working()
    {
        constexpr unsigned kId = 9; // nobody else's
        Node friendly;
        Endpoint ep(friendly, node);
        ASSERT_EQ(
            retry({&friendly, &node}, [&] { return uct_ep_am_short(ep, kId, 0, nullptr, 0); }),
            UCS_OK);
        EXPECT_TRUE(wait_until({&friendly, &node}, [&] {
            return std::any_of(node.received.begin(), node.received.end(),
                               [](const Message& message) { return message.id == kId; });
        }));
    }
};

// Each part of the address is needed; nothing is answered, nothing made.
TEST_F(Attack, RequestsWithoutTheAddress)
{
    const long before = queue_pairs();
    HashKey wrong = secret.key;
    wrong.words[1] ^= 1;
    Packet request = stranger.packet(address, PacketType::request, 1);
    request.qpn = 5;
    for (unsigned i = 0; i < 300; ++i) {
        request.connection = i;
        stranger.send(address, request, wrong);
        stranger.send(address, &request, sizeof(request), secret.handshake_qkey); // no proof
        Packet elsewhere = request;
        elsewhere.target ^= 1;
        stranger.send(address, elsewhere, secret.key);
        Packet proven = request;
        proven.proof = proof(proven, secret.key);
        stranger.send(address, &proven, sizeof(proven), secret.handshake_qkey ^ 1);
        proven.psn ^= 1; // changed on the way
        stranger.send(address, &proven, sizeof(proven), secret.handshake_qkey);
        usleep(100);
    }
    EXPECT_FALSE(stranger.receive(0.3)) << "answered";
    EXPECT_EQ(queue_pairs(), before);
    expect_working();
}

// What a peer says that has the address, bytes changed at random; and bytes alone.
TEST_F(Attack, Datagrams)
{
    std::mt19937 random(1);
    const long before = queue_pairs();
    for (unsigned i = 0; i < 20000; ++i) {
        unsigned char data[200];
        std::generate(std::begin(data), std::end(data), [&] { return random(); });
        size_t length = random() % sizeof(data);
        if (i % 4 != 0) {
            Packet packet = stranger.packet(address, static_cast<PacketType>(random() % 10), i % 7);
            packet.reason = static_cast<RejectReason>(random() % 4);
            packet.qpn = random();
            for (unsigned changes = random() % 3; changes > 0; --changes)
                reinterpret_cast<unsigned char*>(&packet)[random() % offsetof(Packet, proof)] =
                    static_cast<unsigned char>(random());
            packet.proof = proof(packet, secret.key);
            std::memcpy(data, &packet, sizeof(packet));
            length = sizeof(packet);
        }
        stranger.send(address, data, length, secret.handshake_qkey);
        if (i % 32 == 0)
            node.progress();
    }
    EXPECT_LT(queue_pairs() - before, 8192 / 2 + 1); // as many as are accepted at most
    expect_working();
}

TEST(AttackOnLimits, Accepted)
{
    Node node(Variables{{"MAX_ACCEPTED", "30"}, {"MAX_ACCEPTED_OF_PEER", "20"}});
    Address address = node.address();
    const HashKey key = parse<IfaceAddress>(address.iface).key;
    Stranger stranger;
    const long before = queue_pairs();
    for (uint64_t source : {1, 2}) {
        for (unsigned i = 0; i < 100; ++i) {
            Packet request = stranger.packet(address, PacketType::request, i);
            request.source = source;
            request.qpn = 5;
            stranger.send(address, request, key);
            usleep(1000);
        }
        const long most = source == 1 ? 20 : 30;
        EXPECT_TRUE(wait_until(
            {&node}, [&] { return queue_pairs() - before == most; }, 5))
            << queue_pairs() - before;
    }
    // One that goes makes room.
    for (unsigned i = 0; i < 5; ++i) {
        Packet farewell = stranger.packet(address, PacketType::farewell, i);
        farewell.source = 1;
        stranger.send(address, farewell, key);
    }
    EXPECT_TRUE(wait_until(
        {&node}, [&] { return queue_pairs() - before == 25; }, 5));
    Node late;
    Endpoint ep(late, node);
    ASSERT_EQ(retry({&late, &node}, [&] { return uct_ep_am_short(ep, 1, 0, nullptr, 0); }), UCS_OK);
    EXPECT_TRUE(wait_until({&late, &node}, [&] { return node.received_count == 1; }));
}

// A peer that was given the address, and sends what no peer sends.
class Receives : public Attack, public testing::WithParamInterface<int> {};

TEST_P(Receives, AreWhatPeersSend)
{
    const long before = queue_pairs();
    stranger.connect(address, 1);
    ASSERT_EQ(queue_pairs(), before + 2); // its own, and the acceptor
    ASSERT_EQ(stranger.post(IBV_WR_SEND_WITH_IMM, htonl(3), 8), IBV_WC_SUCCESS);
    ASSERT_TRUE(wait_until({&node}, [&] { return node.received_count == 1; }));
    switch (GetParam()) {
    case 0:
        stranger.post(IBV_WR_SEND, htonl(4), 8);
        break;
    case 1:
        stranger.post(IBV_WR_RDMA_WRITE_WITH_IMM, htonl(5), 0);
        break;
    default: // asks for windows and does not take them
        for (unsigned i = 0; i < 40; ++i)
            stranger.post(IBV_WR_SEND_WITH_IMM, htonl(kWindowRequest | 6), 0);
    }
    EXPECT_TRUE(wait_until(
        {&node}, [&] { return queue_pairs() == before + 1; }, 5))
        << "the connection is kept";
    for (const Message& message : node.received)
        EXPECT_TRUE(message.id == 3 || message.id == 6) << message.id;
    expect_working();
}

// The vectors of the hash's authors: the key 00 01 .. 0f, messages 00 01 ...
TEST(SipHash, Vectors)
{
    const HashKey key{{0x0706050403020100, 0x0f0e0d0c0b0a0908}};
    const unsigned char message[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    EXPECT_EQ(siphash(key, message, 0), 0x726fdb47dd0e0e31u);
    EXPECT_EQ(siphash(key, message, 8), 0x93f5f5799a932462u);
    EXPECT_EQ(siphash(key, message, 15), 0xa129ca6149be45e5u);
}

INSTANTIATE_TEST_SUITE_P(All, Receives, testing::Range(0, 3));

} // namespace
} // namespace rc_test
