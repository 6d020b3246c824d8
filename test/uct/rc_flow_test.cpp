// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Receivers that are slow, many senders, and messages that UCP keeps.
#include "rc_support.hpp"

#include "rc/endpoint.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

namespace rc_test {
namespace {

size_t send_all(Node& sender, uct_ep_h ep, size_t first, size_t limit)
{
    size_t sent = first;
    for (unsigned idle = 0; sent < limit && idle < 2000;) {
        if (uct_ep_am_short(ep, 1, sent, nullptr, 0) == UCS_OK) {
            ++sent;
            idle = 0;
        } else {
            sender.progress();
            ++idle;
        }
    }
    return sent;
}

TEST(Flow, SenderStopsAtTheWindow)
{
    Node sender(Variables{{"WINDOW", "64"}}), receiver;
    Endpoint ep(sender, receiver);
    // Connected once one has gone; the receiver does not progress.
    ASSERT_TRUE(
        wait_until({&sender}, [&] { return uct_ep_am_short(ep, 1, 0, nullptr, 0) == UCS_OK; }));
    size_t sent = send_all(sender, ep, 1, 1000);
    EXPECT_EQ(sent, 64u);
    char word[8] = {};
    Registered key(receiver, word, sizeof(word));
    EXPECT_EQ(retry({&sender},
                    [&] {
                        return uct_ep_put_short(ep, "x", 1, reinterpret_cast<uint64_t>(word),
                                                key.rkey());
                    }),
              UCS_OK)
        << "the window is for messages only";
    EXPECT_EQ(send_bcopy(ep, 1, "x"), UCS_ERR_NO_RESOURCE);
    const auto ask = [&] {
        return uct_ep_am_bcopy(
            ep, 1, [](void*, void*) { return size_t{0}; }, nullptr, UCT_SEND_FLAG_PEER_CHECK);
    };
    const uint64_t writes = hca_counters().writes;
    EXPECT_EQ(ask(), 0) << "the question whether the peer lives is asked without a window";
    EXPECT_EQ(receiver.received_count, 0u);
    EXPECT_TRUE(wait_until({&sender}, [&] { return hca_counters().writes > writes; }));
    while (uct_ep_put_short(ep, "x", 1, reinterpret_cast<uint64_t>(word), key.rkey()) == UCS_OK) {
    }
    EXPECT_EQ(ask(), 0) << "what is under way tells";
    ASSERT_TRUE(wait_until({&sender, &receiver}, [&] {
        sent = send_all(sender, ep, sent, std::min<size_t>(sent + 1, 1000));
        return receiver.received_count == 1000;
    }));
    for (size_t i = 0; i < 1000; ++i) {
        ASSERT_EQ(*reinterpret_cast<const uint64_t*>(receiver.received[i].data.data()), i);
    }
}

// Each grant takes room in the receiver's completion queue until its own completion.
TEST(Flow, GrantsGiveTheirRoomBack)
{
    Node sender(Variables{{"WINDOW", "64"}}), receiver;
    Endpoint ep(sender, receiver);
    const std::vector<Node*> nodes{&sender, &receiver};
    const int room = gdr::rc::rc_iface(receiver.iface()).credits.available();
    size_t sent = 0;
    ASSERT_TRUE(wait_until(nodes, [&] {
        sent = send_all(sender, ep, sent, std::min<size_t>(sent + 1, 1000));
        return receiver.received_count == 1000;
    }));
    EXPECT_TRUE(wait_until(
        nodes, [&] { return gdr::rc::rc_iface(receiver.iface()).credits.available() == room; }));
}

// Few enough stay away, of all operations that take them, to be found in the caches.
TEST(Flow, BuffersComeBackByTheirPayload)
{
    Node sender(Variables{{"TX_MODERATION", "64"}}), receiver;
    Endpoint ep(sender, receiver);
    ASSERT_TRUE(wait_until({&sender}, [&] { return send_bcopy(ep, 1, "") >= 0; }));
    const gdr::rc::SendBuffers& buffers = *gdr::rc::endpoint(ep).iface().buffers;
    std::vector<char> word(4096);
    Registered key(receiver, word.data(), word.size());
    const std::string payload(word.size(), 'x');
    const auto put = [&] {
        return uct_ep_put_bcopy(
            ep,
            [](void* to, void* from) {
                const auto& data = *static_cast<const std::string*>(from);
                return data.copy(static_cast<char*>(to), data.size());
            },
            const_cast<std::string*>(&payload), reinterpret_cast<uint64_t>(word.data()),
            key.rkey());
    };
    const size_t all = buffers.available();
    size_t fewest = all;
    for (int i = 0; i < 48; ++i) {
        ASSERT_GE(i % 2 == 0 ? send_bcopy(ep, 1, payload) : put(), 0) << i;
        fewest = std::min(fewest, buffers.available());
        if (i % 12 == 11) {
            ASSERT_TRUE(
                wait_until({&sender, &receiver}, [&] { return buffers.available() >= all - 8; }))
                << i << ": " << all - buffers.available() << " are away";
        }
    }
    EXPECT_LE(fewest, all - 8) << "several are signalled together";
}

// More is sent than the receiver has buffers for.
TEST(Flow, ManySendersToOne)
{
    constexpr size_t kSenders = 12;
    constexpr size_t kMessages = 3000;
    Node receiver(Variables{{"RX_QUEUE_LEN", "128"}});
    std::vector<std::unique_ptr<Node>> senders;
    std::vector<std::unique_ptr<Endpoint>> eps;
    std::vector<Node*> nodes;
    for (size_t i = 0; i < kSenders; ++i) {
        senders.push_back(std::make_unique<Node>());
        eps.push_back(std::make_unique<Endpoint>(*senders.back(), receiver));
        nodes.push_back(senders.back().get());
    }
    std::vector<size_t> sent(kSenders);
    auto send_more = [&] {
        for (size_t i = 0; i < kSenders; ++i) {
            while (sent[i] < kMessages && uct_ep_am_short(*eps[i], static_cast<uint8_t>(i), sent[i],
                                                          nullptr, 0) == UCS_OK) {
                ++sent[i];
            }
        }
    };
    wait_until(
        nodes,
        [&] {
            send_more();
            return false;
        },
        2); // the receiver sleeps
    nodes.push_back(&receiver);
    ASSERT_TRUE(wait_until(nodes, [&] {
        send_more();
        return receiver.received_count == kSenders * kMessages;
    }));
    std::vector<uint64_t> next(kSenders);
    for (const Message& message : receiver.received) {
        ASSERT_EQ(*reinterpret_cast<const uint64_t*>(message.data.data()), next[message.id]++);
    }
}

TEST(Flow, HeldBuffers)
{
    Node sender, receiver(Variables{{"RX_QUEUE_LEN", "128"}});
    receiver.hold_buffers = true;
    Endpoint ep(sender, receiver);
    std::vector<Node*> nodes{&sender, &receiver};
    for (unsigned round = 0; round < 3; ++round) {
        size_t sent = 0;
        size_t before = receiver.received_count;
        ASSERT_TRUE(wait_until(nodes,
                               [&] {
                                   sent =
                                       send_all(sender, ep, sent, std::min<size_t>(sent + 1, 2000));
                                   return receiver.received_count - before == 2000;
                               }))
            << "round " << round << ": " << receiver.received_count - before << " of " << sent;
        EXPECT_GE(receiver.held.size(), 32u);
        EXPECT_LT(receiver.held.size(), 128u);
        // What is held stays what it was.
        for (size_t i = 0; i < receiver.held.size(); ++i) {
            ASSERT_EQ(*reinterpret_cast<uint64_t*>(static_cast<char*>(receiver.held[i]) + 40), i);
        }
        for (void* desc : std::exchange(receiver.held, {})) {
            uct_iface_release_desc(desc);
        }
    }
}

// Receive buffers that are posted, by the messages that a peer without a window of its own to heed
// gets through to a receiver that does not look.
size_t posted_receives(Node& sender, uct_ep_h ep)
{
    const uint64_t before = hca_counters().sends;
    uint64_t last = before;
    for (unsigned quiet = 0; quiet < 300; ++quiet) {
        while (uct_ep_am_short(ep, 1, 0, nullptr, 0) == UCS_OK) {
        }
        sender.progress();
        if (const uint64_t now = hca_counters().sends; now != last) {
            last = now;
            quiet = 0;
        }
        usleep(100);
    }
    return last - before;
}

// As many as the peers may fill at once: one window each.
TEST(Flow, ReceivesGrowWithPeers)
{
    constexpr size_t kWindow = 128, kMost = 1000;
    const Variables eager{{"WINDOW", "16384"}};
    Node receiver(
        Variables{{"WINDOW", std::to_string(kWindow)}, {"RX_QUEUE_LEN", std::to_string(kMost)}});
    std::vector<std::unique_ptr<Node>> senders;
    std::vector<std::unique_ptr<Endpoint>> eps;
    std::vector<Node*> nodes{&receiver};
    for (size_t expected : {kWindow, 2 * kWindow, 4 * kWindow, 4 * kWindow, kMost, kMost}) {
        senders.push_back(std::make_unique<Node>(eager));
        eps.push_back(std::make_unique<Endpoint>(*senders.back(), receiver));
        nodes.push_back(senders.back().get());
        ASSERT_EQ(retry(nodes, [&] { return uct_ep_am_short(*eps.back(), 1, 0, nullptr, 0); }),
                  UCS_OK);
        ASSERT_EQ(flush(nodes, *eps.back()), UCS_OK);
        wait_until(
            nodes, [] { return false; }, 0.2);
        const size_t posted = posted_receives(*senders.back(), *eps.back());
        EXPECT_LE(posted, expected) << senders.size() << " peers";
        EXPECT_GT(posted, expected - 32) << "so many may wait to be posted";
        ASSERT_TRUE(wait_until(
            nodes, [&] { return uct_iface_flush(senders.back()->iface(), 0, nullptr) == UCS_OK; }));
    }
}

// Messages that are kept leave the peers as many as they had.
TEST(Flow, ReceivesGrowWithMessagesThatAreKept)
{
    constexpr size_t kWindow = 128, kMost = 1024;
    Node sender, receiver(Variables{{"WINDOW", std::to_string(kWindow)},
                                    {"RX_QUEUE_LEN", std::to_string(kMost)}});
    receiver.hold_buffers = true;
    Endpoint ep(sender, receiver);
    size_t sent = 0;
    ASSERT_TRUE(wait_until({&sender, &receiver}, [&] {
        sent = send_all(sender, ep, sent, std::min<size_t>(sent + 1, 2000));
        return receiver.received_count == 2000;
    }));
    EXPECT_EQ(receiver.held.size(), kMost / 2);
    for (size_t i = 0; i < receiver.held.size(); ++i) {
        ASSERT_EQ(*reinterpret_cast<uint64_t*>(static_cast<char*>(receiver.held[i]) + 40), i);
    }
    for (void* desc : std::exchange(receiver.held, {})) {
        uct_iface_release_desc(desc);
    }
}

// Endpoints that come and go, each with grants on their way: no receive buffer is lost with them.
TEST(Flow, EndpointsComeAndGo)
{
    Node sender(Variables{{"WINDOW", "4"}, {"RX_QUEUE_LEN", "128"}}), receiver;
    std::vector<Node*> nodes{&sender, &receiver};
    size_t expected = 0;
    for (unsigned round = 0; round < 300; ++round) {
        Endpoint ep(sender, receiver);
        for (unsigned i = 0; i < 4; ++i) {
            ASSERT_EQ(retry(nodes, [&] { return uct_ep_am_short(ep, 1, i, nullptr, 0); }), UCS_OK)
                << round;
        }
        expected += 4;
        ASSERT_EQ(flush({&sender}, ep), UCS_OK); // nothing is left to do for the endpoint
        // The sender does not look at its grants before it destroys it.
        ASSERT_TRUE(wait_until(
            {&receiver}, [&] { return receiver.received_count == expected; }, 30))
            << round;
    }
    // The sender still receives.
    Endpoint back(receiver, sender);
    for (unsigned i = 0; i < 1000; ++i) {
        ASSERT_EQ(retry(nodes, [&] { return uct_ep_am_short(back, 1, i, nullptr, 0); }), UCS_OK);
    }
    EXPECT_TRUE(wait_until(
        nodes, [&] { return sender.received_count == 1000; }, 30));
}

// Short and buffered operations are complete for the user, and arrive though the endpoint is
// destroyed.
TEST(Flow, DestroyedEndpointDelivers)
{
    Node sender, receiver;
    std::vector<Node*> nodes{&sender, &receiver};
    alignas(8) uint32_t word[2] = {0, 7};
    Registered key(receiver, word, sizeof(word));
    for (unsigned round = 0; round < 30; ++round) {
        Endpoint ep(sender, receiver);
        for (unsigned i = 0; i < 100; ++i) {
            ASSERT_EQ(retry(nodes, [&] { return uct_ep_am_short(ep, 1, i, nullptr, 0); }), UCS_OK);
        }
        ASSERT_GE(send_bcopy(ep, 1, std::string(4000, 'x')), 0);
        ASSERT_EQ(retry(nodes,
                        [&] {
                            return uct_ep_atomic32_post(ep, UCT_ATOMIC_OP_ADD, 1,
                                                        reinterpret_cast<uint64_t>(word),
                                                        key.rkey());
                        }),
                  UCS_OK);
        ep.destroy();
        ASSERT_TRUE(wait_until(
            nodes, [&] { return receiver.received_count == 101 * (round + 1); }, 30));
        ASSERT_TRUE(wait_until(
            nodes, [&] { return *const_cast<volatile uint32_t*>(word) == round + 1; }, 30));
    }
    EXPECT_EQ(word[1], 7u);
}

// And then it goes, though none of its operations had a completion.
TEST(Flow, DestroyedEndpointGoes)
{
    Node sender, receiver;
    std::vector<Node*> nodes{&sender, &receiver};
    uint64_t word = 0;
    Registered key(receiver, &word, sizeof(word));
    gdr::rc::Iface& iface = gdr::rc::rc_iface(sender.iface());
    for (const bool flushed : {false, true}) {
        Endpoint ep(sender, receiver);
        const auto put = [&] {
            return uct_ep_put_short(ep, &word, 8, reinterpret_cast<uint64_t>(&word), key.rkey());
        };
        for (unsigned i = 0; i < 3; ++i) {
            ASSERT_EQ(retry(nodes, put), UCS_OK);
        }
        if (flushed) {
            EXPECT_EQ(uct_ep_flush(ep, 0, nullptr), UCS_INPROGRESS); // its completion is under way
        }
        EXPECT_EQ(iface.endpoints.queue_pairs(), 1u);
        ep.destroy();
        EXPECT_TRUE(wait_until(
            nodes, [&] { return iface.endpoints.queue_pairs() == 0; }, 20));
    }
}

} // namespace
} // namespace rc_test
