// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What HCAs' libraries may offer, thread domains, completion queues for a single thread and the
// ibv_wr_* functions: each is used where it is offered and not switched off, and all works in each
// way. The emulated HCA counts, and ends a program whose threads use one of these objects at once.
#include "rc_support.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

namespace rc_test {
namespace {

struct Way {
    const char* offer;    // in SOFTHCA_EXTENDED
    const char* variable; // UCX_GDR_RC_*
};
constexpr Way kWays[] = {
    {"thread_domain", "THREAD_DOMAIN"}, {"cq", "SINGLE_THREADED_CQ"}, {"wr", "WR_FUNCTIONS"}};
constexpr unsigned kAll = 7; // a bit for each

// Which of them an interface and an endpoint take, as the HCA has counted.
unsigned taken(const Variables& variables)
{
    const struct softhca_counters before = hca_counters();
    Node sender(variables), receiver(variables);
    Endpoint ep(sender, receiver);
    const std::vector<Node*> nodes{&sender, &receiver};
    constexpr unsigned kMessages = 100;
    for (unsigned i = 0; i < kMessages; ++i) {
        EXPECT_EQ(retry(nodes, [&] { return uct_ep_am_short(ep, 1, i, nullptr, 0); }), UCS_OK);
    }
    EXPECT_TRUE(wait_until(nodes, [&] { return receiver.received_count == kMessages; }));
    const struct softhca_counters after = hca_counters();

    const uint64_t queues = after.thread_domain_queues - before.thread_domain_queues;
    const uint64_t cqs = after.single_threaded_cqs - before.single_threaded_cqs;
    const uint64_t polled = after.extended_completions - before.extended_completions;
    const uint64_t batches = after.batches - before.batches;
    EXPECT_TRUE(queues == 0 || queues >= 3) << "two SRQs, a queue pair: " << queues;
    EXPECT_TRUE(cqs == 0 || cqs == 2) << cqs;
    EXPECT_EQ(cqs > 0, polled >= kMessages) << polled;
    EXPECT_TRUE(batches == 0 || batches >= kMessages) << batches;
    return (queues > 0 ? 1 : 0) | (cqs > 0 ? 2 : 0) | (batches > 0 ? 4 : 0);
}

Variables switched(unsigned ways, const char* on)
{
    Variables variables;
    for (unsigned i = 0; i < 3; ++i) {
        variables.emplace_back(kWays[i].variable, ways & 1u << i ? on : "n");
    }
    return variables;
}

TEST(Provider, TakesWhatIsNotSwitchedOff)
{
    ONLY_ON_SOFTHCA("what an HCA's library may offer; libmlx5 is what it is");
    for (unsigned ways = 0; ways <= kAll; ++ways) {
        EXPECT_EQ(taken(switched(ways, "try")), ways);
        EXPECT_EQ(taken(switched(ways, "y")), ways);
    }
    EXPECT_EQ(taken({}), 1u);
}

// RC_TEST_OFFERED: those that the HCA offers.
TEST(DISABLED_Provider, TakesWhatIsOffered)
{
    const auto offered = static_cast<unsigned>(std::stoul(std::getenv("RC_TEST_OFFERED")));
    EXPECT_EQ(taken(switched(kAll, "try")), offered);
    for (unsigned i = 0; i < 3; ++i) {
        const Variables demand{{kWays[i].variable, "y"}};
        if (offered & 1u << i) {
            EXPECT_EQ(taken(demand) | 1u, 1u << i | 1u);
        } else {
            EXPECT_THROW(Node node(demand), std::runtime_error);
        }
    }
}

Variables offering(unsigned ways)
{
    std::string list = "resize_cq";
    for (unsigned i = 0; i < 3; ++i) {
        if (ways & 1u << i) {
            list += std::string(",") + kWays[i].offer;
        }
    }
    return {{"SOFTHCA_EXTENDED", list},
            {"RC_TEST_OFFERED", std::to_string(ways)},
            {"SOFTHCA_FABRIC", "rc_provider-" + std::to_string(getpid())}};
}

TEST(Provider, TakesWhatIsOffered)
{
    ONLY_ON_SOFTHCA("what an HCA's library may offer; libmlx5 is what it is");
    for (unsigned ways = 0; ways <= kAll; ++ways) {
        const Outcome outcome =
            run_self(offering(ways), {"--gtest_filter=DISABLED_Provider.TakesWhatIsOffered",
                                      "--gtest_also_run_disabled_tests"});
        EXPECT_EQ(outcome.status, 0) << ways << ": " << outcome.text;
        EXPECT_NE(outcome.text.find("[  PASSED  ] 1 test"), std::string::npos) << outcome.text;
    }
}

TEST(Provider, WorksInEveryWay)
{
    ONLY_ON_SOFTHCA("what an HCA's library may offer; libmlx5 is what it is");
    for (unsigned ways : {0u, 2u, 4u, kAll}) { // the other tests have the thread domain
        Variables environment = offering(kAll);
        for (const auto& [variable, value] : switched(ways, "y")) {
            environment.emplace_back("UCX_GDR_RC_" + variable, value);
        }
        const Outcome outcome =
            run_self(environment, {"--gtest_filter=*Data.*:Atomic.*:Fence.*:Contention.*:Flow.*:"
                                   "Order.*:Failure.*:Closing.*:Completions.*-*.OfAnHca*"});
        EXPECT_EQ(outcome.status, 0) << ways << ": " << outcome.text;
        EXPECT_EQ(outcome.text.find("[  PASSED  ] 0 tests"), std::string::npos) << outcome.text;
    }
}

// Those of a ConnectX are taken; with libmlx5's own functions all works, too.
TEST(Provider, QueuesOfAConnectX)
{
    if (!on_softmlx5()) {
        EXPECT_THROW(Node node(Variables{{"MLX5_QUEUES", "y"}}), std::runtime_error);
        return;
    }
    Node node(Variables{{"MLX5_QUEUES", "y"}});
    const Outcome outcome =
        run_self({{"UCX_GDR_RC_MLX5_QUEUES", "n"},
                  {"SOFTHCA_FABRIC", "rc_libmlx5-" + std::to_string(getpid())}},
                 {"--gtest_filter=*Data.*:Atomic.*:Fence.*:Order.*:All/Receives.*"});
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_EQ(outcome.text.find("[  PASSED  ] 0 tests"), std::string::npos) << outcome.text;
}

// Those whose queue pairs take no data inside a work request, however they say so, or refuse to
// allow the atomics that they lack; those that must not be asked to resize a completion queue. Less
// what needs atomics.
TEST(Provider, WorksOnHcasWithLess)
{
    ONLY_ON_SOFTHCA("what an HCA's library may offer; libmlx5 is what it is");
    for (const char* profile : {"hfi1", "softhca,inline=refuse,max_inline=0,atomics=refused",
                                "softhca,inline=grant_less,max_inline=12", "thor"}) {
        const Outcome outcome = run_self(
            {{"SOFTHCA_PROFILE", profile},
             {"SOFTHCA_FABRIC", "rc_less-" + std::to_string(getpid())}},
            {"--gtest_filter=*Data.*:Order.*-Order.FlushInACallbackBehindPendingRequests"});
        EXPECT_EQ(outcome.status, 0) << profile << ": " << outcome.text;
        EXPECT_EQ(outcome.text.find("[  PASSED  ] 0 tests"), std::string::npos) << outcome.text;
    }
}

} // namespace
} // namespace rc_test
