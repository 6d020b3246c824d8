// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The RC transport on an HCA with faults: whatever goes wrong, and when, ends in correct data or in
// a call of the error callback. The sender's HCA is softhca0, the receiver's softhca1.
#include "rc_support.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include <sys/wait.h>

namespace rc_test {
namespace {

constexpr unsigned kMessages = 60;
constexpr size_t kLength = 100000;

// Messages, then a PUT and a GET, as far as they go. Says which end it came to.
TEST(DISABLED_Faulty, Exchange)
{
    const Variables impatient{{"CONNECT_TIMEOUT", "2s"}};
    Node sender(impatient), receiver(impatient, kOtherDevice);
    const std::vector<Node*> nodes{&sender, &receiver};
    Buffer here(Memory::host, kLength), there(Memory::host, kLength);
    Registered local(sender, here), remote(receiver, there);
    Endpoint ep(sender, receiver);
    const auto failed = [&] { return !sender.failures.empty(); };
    const auto done = [&](ucs_status_t status, const Completion& completion) {
        return wait_until(nodes, [&] {
            return status == UCS_OK || UCS_STATUS_IS_ERR(status) || completion.done();
        });
    };

    unsigned sent = 0;
    while (sent < kMessages && !failed()) {
        const ssize_t length = static_cast<ssize_t>(1 + sent * 50);
        ssize_t result = UCS_ERR_NO_RESOURCE;
        ASSERT_TRUE(wait_until(nodes,
                               [&] {
                                   result = send_bcopy(ep, 5,
                                                       pattern(static_cast<size_t>(length), sent));
                                   return result != UCS_ERR_NO_RESOURCE;
                               }))
            << "message " << sent << " hangs";
        if (result != length) {
            break;
        }
        ++sent;
    }
    ASSERT_TRUE(wait_until(nodes, [&] { return failed() || receiver.received_count == kMessages; }))
        << receiver.received_count << " messages came, and then nothing";
    for (size_t i = 0; i < receiver.received.size(); ++i) {
        ASSERT_EQ(receiver.received[i].data, pattern(1 + i * 50, static_cast<unsigned>(i)));
    }

    for (bool put : {true, false}) {
        Buffer& from = put ? here : there;
        Buffer& to = put ? there : here;
        from.fill(7 + put);
        to.clear();
        Completion completion;
        uct_iov_t piece = local.piece(here.data(), kLength);
        const ucs_status_t status = retry(nodes, [&] {
            return (put ? uct_ep_put_zcopy : uct_ep_get_zcopy)(ep, &piece, 1, there.address(),
                                                               remote.rkey(), &completion);
        });
        ASSERT_NE(status, UCS_ERR_NO_RESOURCE) << (put ? "PUT" : "GET") << " hangs";
        ASSERT_TRUE(done(status, completion)) << (put ? "PUT" : "GET") << " never completes";
        if (!UCS_STATUS_IS_ERR(status) && completion.status == UCS_OK) {
            EXPECT_TRUE(to.holds(7 + put, 0, kLength));
        } else {
            ASSERT_TRUE(wait_until(nodes, failed)) << "failed, and nobody was told";
        }
    }
    EXPECT_LE(sender.failures.size(), 1u);
    std::printf("ended: %s\n", failed() ? "told" : "delivered");
}

// Messages one by one until one does not arrive; one more then, when the outage is known. Nothing
// asks for their completion.
TEST(DISABLED_Faulty, SendsInOutage)
{
    Node sender, receiver(Variables{}, kOtherDevice);
    const std::vector<Node*> nodes{&sender, &receiver};
    Endpoint ep(sender, receiver);
    const auto send = [&](double seconds) {
        const size_t count = receiver.received_count + 1;
        return wait_until(
                   nodes, [&] { return send_bcopy(ep, 5, "message") != UCS_ERR_NO_RESOURCE; },
                   10) &&
               wait_until(
                   nodes, [&] { return receiver.received_count == count; }, seconds);
    };
    ASSERT_TRUE(send(10));
    unsigned sent = 0;
    while (send(0.5) && sent < kMessages) {
        ++sent;
    }
    EXPECT_LT(sent, kMessages);
    EXPECT_TRUE(sender.failures.empty());
    send_bcopy(ep, 5, "message");
    const bool told = wait_until(
        nodes, [&] { return !sender.failures.empty(); }, 10);
    std::printf("ended: %s\n", told ? "told" : "silence");
}

// The receiver's interface breaks by something that it sends itself. What it accepted works still
// as far as the HCA is concerned.
TEST(DISABLED_Faulty, Accepted)
{
    const Variables impatient{{"CONNECT_TIMEOUT", "2s"}};
    Node sender(impatient), receiver(impatient, kOtherDevice);
    const std::vector<Node*> nodes{&sender, &receiver};
    Endpoint ep(sender, receiver), back(receiver, sender);
    const auto send_until_failure = [&](Node& node, uct_ep_h from) {
        return wait_until(
            nodes,
            [&] {
                send_bcopy(from, 5, "message");
                return !node.failures.empty();
            },
            10);
    };
    ASSERT_TRUE(wait_until(nodes, [&] {
        send_bcopy(ep, 5, "message");
        return receiver.received_count > 0;
    }));
    EXPECT_TRUE(sender.failures.empty());
    ASSERT_TRUE(send_until_failure(receiver, back));
    EXPECT_TRUE(send_until_failure(sender, ep)) << "the peer goes on with a broken interface";
    sender.failures.clear();
    Endpoint late(sender, receiver);
    EXPECT_TRUE(send_until_failure(sender, late)) << "a broken interface is connected to";
    std::printf("ended: told\n");
}

// words: are said, too. With retries that end after 0.5 s, unless others are given.
std::string end_with(const std::string& rules, const std::string& test = "Exchange",
                     const std::string& words = "",
                     const Variables& retries = {{"UCX_GDR_RC_TIMEOUT", "60ms"},
                                                 {"UCX_GDR_RC_RETRY_COUNT", "6"}})
{
    Variables environment = retries;
    environment.emplace_back("SOFTHCA_FAULTS", rules);
    environment.emplace_back("SOFTHCA_FABRIC", "rc_fault-" + std::to_string(getpid()));
    const Outcome outcome = run_self(
        environment, {"--gtest_filter=DISABLED_Faulty." + test, "--gtest_also_run_disabled_tests"});
    EXPECT_EQ(outcome.status, 0) << rules << ":\n" << outcome.text;
    EXPECT_NE(outcome.text.find(words), std::string::npos) << rules << ":\n" << outcome.text;
    const size_t end = outcome.text.find("ended: ");
    return end == std::string::npos
               ? ""
               : outcome.text.substr(end + 7, outcome.text.find('\n', end) - end - 7);
}

TEST(Faults, None)
{
    EXPECT_EQ(end_with("softhca0 error fatal_err at 1000000"), "delivered");
}

// Wherever it strikes: in the handshake, among the messages, in PUT and GET.
TEST(Faults, ErrorCompletions)
{
    unsigned told = 0;
    for (unsigned n : {1, 2, 3, 4, 5, 8, 20, 40, 60, 61, 62, 63, 64, 65, 66}) {
        told += end_with("softhca0 error rem_op_err at " + std::to_string(n)) == "told";
    }
    EXPECT_GE(told, 8u);
    for (unsigned n : {1, 2, 3, 4, 5}) {
        end_with("softhca1 error retry_exc_err at " + std::to_string(n));
    }
    end_with("softhca0 error rem_op_err at 60", "Exchange",
             "a connection from " + emulated_hca(0) + ":1 to the peer at LID ");
}

// An outage that ends in time: that is said, as its beginning is.
TEST(Faults, ShortOutage)
{
    const std::string port = emulated_hca(0) + ":1";
    for (const char* words : {" went down: ", " is up again"}) {
        EXPECT_EQ(end_with("softhca0 down 100 at 30", "Exchange", port + words), "delivered");
    }
}

// An HCA that fails as a whole, or a queue that all connections share: every one ends, though
// nothing completes any more, and it is said why.
TEST(Faults, BrokenHca)
{
    for (const char* at : {"1", "30", "61"}) {
        EXPECT_EQ(end_with(std::string("softhca0 device_fatal at ") + at, "Exchange",
                           emulated_hca(0) + " has failed (local catastrophic error)"),
                  "told");
    }
    for (const char* at : {"30", "61"}) {
        EXPECT_EQ(end_with(std::string("softhca0 cq_err at ") + at, "Exchange",
                           emulated_hca(0) + ":1: CQ error: "),
                  "told");
        EXPECT_EQ(end_with(std::string("softhca0 srq_err at ") + at, "Exchange",
                           emulated_hca(0) + ":1: SRQ catastrophic error: "),
                  "told");
    }
    // Of who receives: the sender's HCA does not notice.
    EXPECT_EQ(end_with("softhca1 device_fatal at 1", "Exchange", emulated_hca(1) + " has failed"),
              "told");
}

TEST(Faults, BrokenAcceptedConnection)
{
    EXPECT_EQ(end_with("softhca1 cq_err at 30", "Accepted", emulated_hca(1) + ":1: CQ error: "),
              "told");
    EXPECT_EQ(end_with("softhca1 srq_err at 30", "Accepted",
                       emulated_hca(1) + ":1: SRQ catastrophic error: "),
              "told");
}

// The queue pair of the handshake is one that others can bring into the error state.
TEST(Faults, HandshakeRecovers)
{
    EXPECT_EQ(end_with("softhca0 error loc_qp_op_err at 1", "Exchange", "is set up anew"),
              "delivered");
    EXPECT_EQ(end_with("softhca1 error loc_qp_op_err at 1", "Exchange", "is set up anew"),
              "delivered");
}

TEST(Faults, RnrStorm)
{
    EXPECT_EQ(end_with("rnr 30"), "delivered");
}

TEST(Faults, PortFlap)
{
    EXPECT_EQ(end_with("softhca0 down 100 at 20"), "delivered"); // shorter than the retries
    EXPECT_EQ(end_with("softhca0 down 60000 at 20"), "told");
    EXPECT_EQ(end_with("softhca1 down 100 at 2; softhca0 down 100 at 50"), "delivered");
}

// An HCA that does not end by itself what a port that is down cannot carry.
TEST(Faults, PortDownAndHcaSilent)
{
    EXPECT_EQ(end_with("softhca0 endless at 62; softhca0 down 60000 at 62"), "told");
    EXPECT_EQ(end_with("softhca0 endless at 62; softhca0 down 5000 at 62"), "told");
    EXPECT_EQ(end_with("softhca0 endless at 62; softhca0 down 500 at 62"), "delivered");
    EXPECT_EQ(end_with("softhca0 endless at 20; softhca0 down 60000 at 20", "SendsInOutage"),
              "told");
}

TEST(Faults, DroppedPeer)
{
    EXPECT_EQ(end_with("softhca0 drop at 20"), "told");
    EXPECT_EQ(end_with("softhca0 drop at 1"), "told");
    EXPECT_EQ(end_with("softhca1 drop at 1"), "told");
}

// By default a network may be mended for some seconds, and a dead peer is noticed after that.
TEST(Faults, PatienceByDefault)
{
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(end_with("softhca0 down 3000 at 20", "Exchange", "", {}), "delivered");
    const auto outage = std::chrono::steady_clock::now();
    EXPECT_GT(outage - start, std::chrono::seconds(3));
    EXPECT_EQ(end_with("softhca0 drop at 20", "Exchange", "", {}), "told");
    const std::chrono::duration<double> notice = std::chrono::steady_clock::now() - outage;
    RecordProperty("seconds", std::to_string(notice.count()));
    EXPECT_GT(notice.count(), 7);
    EXPECT_LT(notice.count(), 20);
}

TEST(Faults, Delay)
{
    EXPECT_EQ(end_with("softhca0 delay 50000 at 10; softhca0 delay 50000 at 30"), "delivered");
}

} // namespace
} // namespace rc_test
