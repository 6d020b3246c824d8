// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Strangers on the fabric: a program with plain verbs that knows everything but what an interface's
// address tells, or that was given the address and does not keep to the protocol.
#include "rc_stranger.hpp"

#include <algorithm>
#include <iterator>
#include <random>

#include <arpa/inet.h>
#include <unistd.h>

namespace rc_test {
namespace {

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
            for (unsigned changes = random() % 3; changes > 0; --changes) {
                reinterpret_cast<unsigned char*>(&packet)[random() % offsetof(Packet, proof)] =
                    static_cast<unsigned char>(random());
            }
            packet.proof = proof(packet, secret.key);
            std::memcpy(data, &packet, sizeof(packet));
            length = sizeof(packet);
        }
        stranger.send(address, data, length, secret.handshake_qkey);
        if (i % 32 == 0) {
            node.progress();
        }
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

// Longer than a packet, up to the MTU: an error of the queue pair, had the receives no room for it.
TEST_F(Attack, LongDatagrams)
{
    std::vector<char> data(4096, 'x');
    testing::internal::CaptureStdout();
    for (size_t length : {217, 1024, 4096}) {
        stranger.send(address, data.data(), length, secret.handshake_qkey);
    }
    expect_working();
    EXPECT_EQ(testing::internal::GetCapturedStdout().find("set up anew"), std::string::npos);
}

// A peer that was given the address, and sends what no peer sends.
class Receives : public Attack, public testing::WithParamInterface<int> {};

TEST_P(Receives, AreWhatPeersSend)
{
    const long before = queue_pairs();
    stranger.connect(address, 1);
    ASSERT_EQ(queue_pairs(), before + 2); // its own, and the accepted one
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
        for (unsigned i = 0; i < 40; ++i) {
            stranger.post(IBV_WR_SEND_WITH_IMM, htonl(kWindowRequest | 6), 0);
        }
    }
    EXPECT_TRUE(wait_until(
        {&node}, [&] { return queue_pairs() == before + 1; }, 5))
        << "the connection is kept";
    for (const Message& message : node.received) {
        EXPECT_TRUE(message.id == 3 || message.id == 6) << message.id;
    }
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
