// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// HCAs without shared receive queues: each connection has a receive queue of its own. No message
// finds it empty: with RNR_RETRY_COUNT=0 one that does fails its endpoint.
#include "rc_support.hpp"

#include "rc/endpoint.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

namespace rc_test {
namespace {

constexpr unsigned kWindow = 64;                            // the default
constexpr unsigned kConnection = (kWindow + 17) + (2 + 17); // work requests, one each way

const Variables& intolerant()
{
    static const Variables variables{{"RNR_RETRY_COUNT", "0"}};
    return variables;
}

Variables intolerant_and(const Variables& more)
{
    Variables all = intolerant();
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

long registered()
{
    const auto counters = hca_counters();
    return static_cast<long>(counters.registrations - counters.deregistrations);
}

void send(const std::vector<Node*>& nodes, uct_ep_h ep)
{
    ASSERT_EQ(retry(nodes, [&] { return uct_ep_am_short(ep, 1, 0, nullptr, 0); }), UCS_OK);
}

class DISABLED_OwnReceives : public testing::Test {
  protected:
    // Two interfaces, each with room for so many connections.
    explicit DISABLED_OwnReceives(unsigned connections = 10)
        : variables(intolerant_and({{"RX_QUEUE_LEN", std::to_string(connections * kConnection)}})),
          sender(variables), receiver(variables)
    {
        EXPECT_EQ(gdr::rc::rc_iface(receiver.iface()).receive_queues->srq(), nullptr);
    }

    Variables variables;
    Node sender, receiver;
    const std::vector<Node*> nodes{&sender, &receiver};
};

// However eager the sender: as many as the receiver told, then nothing until that looks.
TEST_F(DISABLED_OwnReceives, SlowReceiver)
{
    Node eager(intolerant_and({{"WINDOW", "16384"}}));
    Endpoint ep(eager, receiver);
    send({&eager, &receiver}, ep);
    size_t sent = 1;
    for (unsigned round = 0; round < 50; ++round) {
        for (unsigned quiet = 0; quiet < 100; ++quiet) {
            while (uct_ep_am_short(ep, 1, sent, nullptr, 0) == UCS_OK) {
                ++sent;
            }
            eager.progress();
            usleep(20);
        }
        EXPECT_LE(sent, receiver.received_count + kWindow);
        receiver.progress(); // a batch of 16 at most
    }
    EXPECT_GT(sent, 300u);
    ASSERT_TRUE(wait_until({&eager, &receiver}, [&] { return receiver.received_count == sent; }));
    EXPECT_TRUE(eager.failures.empty());
}

TEST_F(DISABLED_OwnReceives, ManySendersToOne)
{
    constexpr size_t kSenders = 8, kMessages = 5000;
    std::vector<std::unique_ptr<Node>> senders;
    std::vector<std::unique_ptr<Endpoint>> eps;
    std::vector<Node*> all{&receiver};
    for (size_t i = 0; i < kSenders; ++i) {
        senders.push_back(std::make_unique<Node>(variables));
        eps.push_back(std::make_unique<Endpoint>(*senders.back(), receiver));
        all.push_back(senders.back().get());
    }
    std::vector<size_t> sent(kSenders);
    receiver.hold_buffers = true; // UCT allows none to be held
    ASSERT_TRUE(wait_until(all, [&] {
        for (size_t i = 0; i < kSenders; ++i) {
            while (sent[i] < kMessages && uct_ep_am_short(*eps[i], static_cast<uint8_t>(i), sent[i],
                                                          nullptr, 0) == UCS_OK) {
                ++sent[i];
            }
        }
        return receiver.received_count == kSenders * kMessages;
    }));
    EXPECT_TRUE(receiver.held.empty());
    std::vector<uint64_t> next(kSenders);
    for (const Message& message : receiver.received) {
        ASSERT_EQ(*reinterpret_cast<const uint64_t*>(message.data.data()), next[message.id]++);
    }
}

// Endpoints that come and go, one after the other: neither room nor memory stays behind.
TEST_F(DISABLED_OwnReceives, EndpointsComeAndGo)
{
    const long before = registered();
    for (unsigned i = 0; i < 200; ++i) {
        Endpoint ep(sender, receiver);
        for (unsigned message = 0; message < 40; ++message) { // with a grant on its way
            send(nodes, ep);
        }
    }
    EXPECT_TRUE(wait_until(nodes, [&] { return receiver.received_count == 200 * 40; }));
    EXPECT_TRUE(wait_until(
        nodes, [&] { return registered() == before; }, 10))
        << registered() - before;
    EXPECT_TRUE(sender.failures.empty());
}

// The same amid their work.
TEST_F(DISABLED_OwnReceives, EndpointsGoAmidTheirWork)
{
    uint64_t word = 0;
    Registered key(receiver, &word, sizeof(word)), source(sender, &word, sizeof(word));
    const uct_iov_t piece = source.piece(&word, sizeof(word));
    const long before = registered();
    for (unsigned i = 0; i < 200; ++i) {
        Completion completion; // called when the endpoint goes
        Endpoint ep(sender, receiver);
        for (unsigned message = 0; message < 40; ++message) {
            send(nodes, ep);
        }
        ASSERT_EQ(uct_ep_put_zcopy(ep, &piece, 1, reinterpret_cast<uint64_t>(&word), key.rkey(),
                                   &completion),
                  UCS_INPROGRESS);
    }
    EXPECT_TRUE(wait_until(
        nodes, [&] { return registered() == before; }, 10))
        << registered() - before;
}

// Where there is room for one connection the next one waits until that goes.
class DISABLED_OwnReceivesOfOne : public DISABLED_OwnReceives {
  protected:
    DISABLED_OwnReceivesOfOne() : DISABLED_OwnReceives(1) {}
};

TEST_F(DISABLED_OwnReceivesOfOne, NextOneWaits)
{
    Node other(variables);
    Endpoint first(sender, receiver);
    send(nodes, first);
    Endpoint second(other, receiver);
    EXPECT_EQ(uct_ep_am_short(second, 1, 0, nullptr, 0), UCS_ERR_NO_RESOURCE);
    wait_until(
        {&sender, &receiver, &other}, [] { return false; }, 0.5);
    EXPECT_EQ(uct_ep_am_short(second, 1, 0, nullptr, 0), UCS_ERR_NO_RESOURCE);
    first.destroy();
    send({&sender, &receiver, &other}, second);
    EXPECT_TRUE(
        wait_until({&sender, &receiver, &other}, [&] { return receiver.received_count == 2; }));
    EXPECT_TRUE(other.failures.empty());
}

// A window that the peers' addresses tell, however they came to it.
TEST(OwnReceives, WindowOfAPeer)
{
    gdr::rc::IfaceAddress address{};
    EXPECT_EQ(gdr::rc::allowed_window(512, address), 512u);
    for (const auto& [told, allowed] :
         {std::pair{64u, 64u}, {1024u, 512u}, {100u, 64u}, {1u, 4u}, {65535u, 512u}}) {
        address.window = static_cast<uint16_t>(told);
        EXPECT_EQ(gdr::rc::allowed_window(512, address), allowed) << told;
    }
}

void on_an_hca_without_srq(const std::string& profile, const std::string& filter)
{
    const Outcome outcome =
        run_self({{"SOFTHCA_PROFILE", profile},
                  {"UCX_GDR_RC_RNR_RETRY_COUNT", "0"},
                  {"UCX_GDR_RC_RX_QUEUE_LEN", "120000"}, // some tests have a thousand connections
                  {"SOFTHCA_FABRIC", "rc_own-" + std::to_string(getpid())}},
                 {"--gtest_filter=" + filter, "--gtest_also_run_disabled_tests"});
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_EQ(outcome.text.find("[  PASSED  ] 0 tests"), std::string::npos) << outcome.text;
}

TEST(OwnReceives, OfAnyHca)
{
    on_an_hca_without_srq("softhca,max_srq=0", "DISABLED_OwnReceives*");
}

TEST(OwnReceives, OfAnE810)
{
    ONLY_ON_SOFTHCA("softmlx5 emulates no Ethernet");
    on_an_hca_without_srq("e810", "DISABLED_OwnReceives*");
}

// One that tells of shared receive queues, and makes none.
TEST(OwnReceives, WhereNoneIsMade)
{
    on_an_hca_without_srq("softhca,srq=einval", "DISABLED_OwnReceives*");
}

// What does not depend on who shares receives goes as it does with shared ones: data, ends of
// endpoints and of peers. Left out is what is about the shared queue's length.
TEST(OwnReceives, AllElseIsTheSame)
{
    on_an_hca_without_srq("softhca,max_srq=0",
                          "Data*:Fence*:Failure*:Flow.*:Connecting.Closed*:Connecting.Killed*:"
                          "Connecting.Idle*-*HeldBuffers:*ReceivesGrow*:Flow.ManySendersToOne");
}

} // namespace
} // namespace rc_test
