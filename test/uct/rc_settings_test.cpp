// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCX_GDR_RC_* with any value, a RoCE port, too little locked memory: works or says what is wrong.
#include "rc_support.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include <sys/wait.h>
#include <unistd.h>

namespace rc_test {
namespace {

using Value = std::pair<std::string, std::string>;

class Settings : public testing::TestWithParam<Value> {
  protected:
    // Large buffers, but few.
    static Variables variables()
    {
        Variables variables{GetParam()};
        if (GetParam().first == "SEG_SIZE") {
            variables.insert(variables.end(), {{"RX_QUEUE_LEN", "128"}, {"TX_BUFFERS", "8"}});
        }
        return variables;
    }
};

// Clamped and working, or refused.
TEST_P(Settings, Extreme)
{
    std::unique_ptr<Node> sender;
    try {
        sender = std::make_unique<Node>(variables());
    } catch (const std::runtime_error& error) {
        SUCCEED() << error.what();
        return;
    }
    Node receiver(variables());
    std::vector<Node*> nodes{sender.get(), &receiver};
    Endpoint ep(*sender, receiver);
    for (unsigned i = 0; i < 600; ++i) {
        ucs_status_t status = retry(nodes, [&] { return uct_ep_am_short(ep, 1, i, nullptr, 0); });
        if (!sender->failures.empty()) {
            return; // a connect timeout of nothing, say
        }
        ASSERT_EQ(status, UCS_OK);
    }
    std::string longest = pattern(sender->attributes().cap.am.max_bcopy, 1);
    ASSERT_EQ(retry(nodes,
                    [&] {
                        ssize_t sent = send_bcopy(ep, 1, longest);
                        return sent < 0 ? static_cast<ucs_status_t>(sent) : UCS_OK;
                    }),
              UCS_OK);
    ASSERT_TRUE(wait_until(nodes, [&] { return receiver.received_count == 601; }));
    EXPECT_TRUE(receiver.received[600].data == longest);
    EXPECT_EQ(flush(nodes, ep), UCS_OK);
}

INSTANTIATE_TEST_SUITE_P(
    All, Settings,
    testing::Values(
        Value{"TX_QUEUE_LEN", "0"}, Value{"TX_QUEUE_LEN", "4294967295"}, Value{"TX_QUEUE_LEN", "9"},
        Value{"TX_BUFFERS", "0"}, Value{"TX_BUFFERS", "4294967295"}, Value{"RX_QUEUE_LEN", "0"},
        Value{"RX_QUEUE_LEN", "1"}, Value{"RX_QUEUE_LEN", "4294967295"}, Value{"SEG_SIZE", "0"},
        Value{"SEG_SIZE", "inf"}, Value{"SEG_SIZE", "8193"}, Value{"MAX_INLINE", "0"},
        Value{"MAX_INLINE", "inf"}, Value{"TX_MODERATION", "0"},
        Value{"TX_MODERATION", "4294967295"}, Value{"WINDOW", "0"}, Value{"WINDOW", "4294967295"},
        Value{"TIMEOUT", "0"}, Value{"TIMEOUT", "1e300s"}, Value{"RETRY_COUNT", "4294967295"},
        Value{"RNR_TIMEOUT", "1000s"}, Value{"RNR_TIMEOUT", "0"}, Value{"RNR_RETRY_COUNT", "99"},
        Value{"CONNECT_TIMEOUT", "0"}, Value{"CONNECT_TIMEOUT", "1e300s"},
        Value{"GID_INDEX", "4000"}, Value{"TRAFFIC_CLASS", "70000"}, Value{"SL", "16"},
        Value{"PKEY", "4660"}, Value{"PATH_MTU", "1"}, Value{"PATH_MTU", "256"}),
    [](const auto& info) {
        std::string name = info.param.first + "_" + info.param.second;
        std::replace_if(
            name.begin(), name.end(), [](char c) { return !isalnum(c); }, '_');
        return name;
    });

// A message may be longer than the other's receive buffers, which would end the connection.
TEST(Addresses, SegmentSize)
{
    Node node, same, larger(Variables{{"SEG_SIZE", "16K"}});
    EXPECT_TRUE(node.reaches(same.address()));
    EXPECT_FALSE(node.reaches(larger.address()));
    EXPECT_FALSE(larger.reaches(node.address()));
    Node other;
    EXPECT_FALSE(other.reaches(larger.address()));
    EXPECT_TRUE(other.reaches(same.address())) << "which has the same port";
    EXPECT_THROW(Endpoint(node, larger), std::runtime_error);
    EXPECT_THROW(Endpoint(larger, node), std::runtime_error);
}

TEST(Environment, RoCE)
{
    ONLY_ON_SOFTHCA("softmlx5 emulates no Ethernet");
    Outcome outcome = run_self(
        {{"SOFTHCA_LINK_LAYER", "ethernet"},
         {"SOFTHCA_FABRIC", "rc_test-roce-" + std::to_string(getpid())}},
        {"--gtest_filter=*Data.AmBcopy*:*Data.PutAndGetZcopy*:TwoDevices.*:Failure.StaleAddress"});
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_NE(outcome.text.find("[  PASSED  ] 6 tests"), std::string::npos) << outcome.text;
}

// Opens one interface and registers a user's memory; run by the test below.
TEST(DISABLED_Child, OpensAnInterface)
{
    Node node;
    std::vector<char> memory(1 << 20);
    Registered registered(node, memory.data(), memory.size());
    Endpoint ep(node, node);
    ASSERT_EQ(retry({&node}, [&] { return uct_ep_am_short(ep, 1, 0, nullptr, 0); }), UCS_OK);
    ASSERT_TRUE(wait_until({&node}, [&] { return node.received_count == 1; }));
}

TEST(Environment, LockedMemory)
{
    auto open_with = [](long limit) {
        return run_self(
            {{"SOFTHCA_MEMLOCK", "enforce"},
             {"SOFTHCA_FABRIC", "rc_test-lock-" + std::to_string(getpid())}},
            {"--gtest_filter=DISABLED_Child.OpensAnInterface", "--gtest_also_run_disabled_tests"},
            limit);
    };
    Outcome some = open_with(6656 << 10); // fewer receive buffers fit
    EXPECT_EQ(some.status, 0) << some.text;
    const std::string hint = " (locked memory is limited to ";
    EXPECT_NE(some.text.find("receive buffers can be registered"), std::string::npos) << some.text;
    EXPECT_NE(some.text.find(hint + "6656 KiB: raise it with ulimit -l)"), std::string::npos)
        << some.text;
    Outcome none = open_with(64 << 10); // nothing does
    EXPECT_TRUE(WIFEXITED(none.status)) << none.text;
    EXPECT_NE(none.status, 0);
    EXPECT_NE(none.text.find(hint + "64 KiB: raise it with ulimit -l)"), std::string::npos)
        << none.text;
}

} // namespace
} // namespace rc_test
