// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The completion queue: small at first, grown with endpoints, peers and messages that are kept, and
// never too small for what is in it. The emulated HCA overlooks a few entries too many: the test
// compares.
#include "rc_support.hpp"

#include "rc/endpoint.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

namespace rc_test {
namespace {

gdr::rc::Iface& internal(const Node& node)
{
    return gdr::rc::rc_iface(node.iface());
}

size_t entries(const Node& node)
{
    return static_cast<size_t>(internal(node).completions.queue()->cqe);
}

// The queue of a ConnectX that libmlx5 has given away is as it was made.
bool resizes()
{
    return std::getenv("RC_TEST_NO_RESIZE") == nullptr && !on_softmlx5();
}

void connect(const std::vector<Node*>& nodes, uct_ep_h ep)
{
    ASSERT_EQ(retry(nodes, [&] { return uct_ep_am_short(ep, 0, 0, nullptr, 0); }), UCS_OK);
    ASSERT_EQ(flush(nodes, ep), UCS_OK);
}

// A CQ as short as the queues at first: one window of receives, one send queue, the grants.
TEST(Completions, FewAtFirst)
{
    Node node;
    if (resizes()) {
        EXPECT_LE(entries(node), 1023u);
    } else {
        EXPECT_EQ(entries(node), 8191u);
    }
}

// All receives filled and every send queue full of signalled work requests, while nobody polls.
TEST(Completions, HaveRoomForAllThatIsOutstanding)
{
    constexpr size_t kWindow = 128, kPeers = 8, kQueue = 64;
    Node node(Variables{{"WINDOW", std::to_string(kWindow)},
                        {"TX_QUEUE_LEN", std::to_string(kQueue)},
                        {"TX_MODERATION", "1"}});
    const size_t first = entries(node);
    std::vector<std::unique_ptr<Node>> peers;
    std::vector<std::unique_ptr<Endpoint>> to, from;
    std::vector<Node*> nodes{&node};
    size_t sent = 0, received = 0;
    for (size_t i = 0; i < kPeers; ++i) {
        peers.push_back(std::make_unique<Node>(Variables{{"WINDOW", std::to_string(kWindow)}}));
        nodes.push_back(peers.back().get());
        to.push_back(std::make_unique<Endpoint>(node, *peers.back()));
        from.push_back(std::make_unique<Endpoint>(*peers.back(), node));
        connect(nodes, *to.back());
        connect(nodes, *from.back());
    }
    wait_until(
        nodes, [] { return false; }, 0.2);
    EXPECT_EQ(resizes(), entries(node) > first);

    uint64_t target = 0;
    for (size_t i = 0; i < kPeers; ++i) {
        Node& peer = *peers[i];
        Registered key(peer, &target, sizeof(target));
        while (uct_ep_put_short(*to[i], &target, 8, uintptr_t(&target), key.rkey()) == UCS_OK) {
            ++sent;
        }
        for (unsigned quiet = 0; quiet < 1000; ++quiet) {
            while (uct_ep_am_short(*from[i], 1, 0, nullptr, 0) == UCS_OK) {
                ++received;
                quiet = 0;
            }
            peer.progress();
        }
    }
    EXPECT_EQ(sent, kPeers * kQueue) << "each endpoint has its whole queue";
    EXPECT_GT(received, kPeers * (kWindow - 1) / 2);
    const size_t handled = node.received_count;
    finish_posted();
    internal(node).completions.save_all();
    const size_t outstanding = internal(node).completions.saved();
    EXPECT_GE(outstanding, sent + received - 32 * kPeers) << "these were in the queue";
    EXPECT_LE(outstanding, entries(node));
    EXPECT_TRUE(wait_until(nodes, [&] { return node.received_count == handled + received; }));
    EXPECT_TRUE(
        wait_until(nodes, [&] { return uct_iface_flush(node.iface(), 0, nullptr) == UCS_OK; }));
    EXPECT_TRUE(node.failures.empty());
}

// More endpoints than the queue has room for: work requests get scarce, and all still arrive.
TEST(Completions, ManyEndpoints)
{
    constexpr size_t kEndpoints = 40, kMessages = 300;
    Node sender(Variables{{"TX_MODERATION", "1"}}), receiver;
    const std::vector<Node*> nodes{&sender, &receiver};
    std::vector<std::unique_ptr<Endpoint>> eps;
    for (size_t i = 0; i < kEndpoints; ++i) {
        eps.push_back(std::make_unique<Endpoint>(sender, receiver));
        connect(nodes, *eps.back());
    }
    ASSERT_TRUE(wait_until(nodes, [&] { return receiver.received_count == kEndpoints; }));
    EXPECT_GE(entries(sender), 3072u);
    uint64_t target = 0;
    Registered key(receiver, &target, sizeof(target));
    size_t posted = 0;
    for (auto& ep : eps) {
        while (uct_ep_put_short(*ep, &target, 8, uintptr_t(&target), key.rkey()) == UCS_OK) {
            ++posted;
        }
    }
    EXPECT_GT(posted, 3072u);
    usleep(100000);
    internal(sender).completions.save_all();
    EXPECT_EQ(internal(sender).completions.saved(), posted);
    EXPECT_LE(posted, entries(sender));
    const size_t before = receiver.received_count;
    for (size_t i = 0; i < kMessages; ++i) {
        for (auto& ep : eps) {
            ASSERT_EQ(retry(nodes, [&] { return uct_ep_am_short(*ep, 1, i, nullptr, 0); }), UCS_OK);
        }
    }
    EXPECT_TRUE(wait_until(nodes, [&] {
        return receiver.received_count - before == kEndpoints * kMessages;
    })) << receiver.received_count - before;
    EXPECT_TRUE(sender.failures.empty());
}

// The same on an HCA that resizes none: as large as it can be needed, from the start.
TEST(Completions, OfAnHcaThatResizesNone)
{
    const Outcome outcome = run_self({{"SOFTHCA_EXTENDED", "thread_domain,cq,wr"},
                                      {"RC_TEST_NO_RESIZE", "1"},
                                      {"SOFTHCA_FABRIC", "rc_resize-" + std::to_string(getpid())}},
                                     {"--gtest_filter=Completions.*:Flow.*-*.OfAnHca*"});
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_NE(outcome.text.find("[  PASSED  ]"), std::string::npos) << outcome.text;
    EXPECT_EQ(outcome.text.find("[  PASSED  ] 0 tests"), std::string::npos) << outcome.text;
}

} // namespace
} // namespace rc_test
