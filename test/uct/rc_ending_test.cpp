// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The end of queue pairs that receive from an SRQ: each step, on an emulated HCA.
#include "rc_support.hpp"

#include "rc/connect/ending.hpp"
#include "verbs/device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace rc_test {
namespace {

using gdr::rc::EndingQueuePairs;
namespace verbs = gdr::verbs;

class Ending : public testing::Test {
  protected:
    verbs::QueuePair make()
    {
        ibv_qp_cap capabilities{};
        capabilities.max_send_wr = capabilities.max_send_sge = 1;
        verbs::Path path{};
        path.port = 1;
        return verbs::create_rc(pd_.get(), cq_.get(), srq_.get(), path, device_.remote_access(),
                                &capabilities);
    }
    static ibv_qp_state state(ibv_qp* qp)
    {
        ibv_qp_attr attributes{};
        ibv_qp_init_attr init{};
        EXPECT_EQ(ibv_query_qp(qp, &attributes, IBV_QP_STATE, &init), 0);
        return attributes.qp_state;
    }
    ibv_srq* make_srq()
    {
        ibv_srq_init_attr init{};
        init.attr.max_wr = init.attr.max_sge = 1;
        return ibv_create_srq(pd_.get(), &init);
    }
    long times_drained(const ibv_qp* qp) const
    {
        return std::ranges::count(drained, qp, &verbs::QueuePair::get);
    }
    void destroy_drained()
    {
        drained.clear();
        ending.gone();
    }
    static void sleep_until(EndingQueuePairs::Clock::time_point time)
    {
        ASSERT_LE(time, EndingQueuePairs::Clock::now() + std::chrono::seconds(5));
        std::this_thread::sleep_until(time);
    }

    const verbs::Device device_{emulated_hca(0)};
    const verbs::ProtectionDomain pd_{ibv_alloc_pd(device_.context())};
    const verbs::CompletionQueue cq_{ibv_create_cq(device_.context(), 16, nullptr, nullptr, 0)};
    const verbs::SharedReceiveQueue srq_{make_srq()};
    std::vector<verbs::QueuePair> drained;
    EndingQueuePairs ending{[this](verbs::QueuePair qp) { drained.push_back(std::move(qp)); }};
};

TEST_F(Ending, StopsReceiving)
{
    verbs::QueuePair owned = make();
    ibv_qp* qp = owned.get();
    ending.end(std::move(owned));
    EXPECT_EQ(state(qp), IBV_QPS_ERR);
    EXPECT_EQ(ending.size(), 1u);
    EXPECT_TRUE(drained.empty()) << "the HCA may still use receives";
}

TEST_F(Ending, DrainsOnceWhenTheHcaSaysSo)
{
    verbs::QueuePair owned = make(), other = make();
    ibv_qp* qp = owned.get();
    ending.end(std::move(owned));
    ending.receives_done(other.get()); // not one of those that end
    EXPECT_TRUE(drained.empty());
    for (int again = 0; again < 2; ++again) {
        ending.receives_done(qp);
    }
    EXPECT_EQ(times_drained(qp), 1);
    sleep_until(ending.next());
    ending.expire();
    EXPECT_EQ(times_drained(qp), 1);

    const uint64_t before = hca_counters().queue_pairs_destroyed;
    EXPECT_EQ(ending.size(), 1u) << "its completions have not been polled";
    EXPECT_EQ(hca_counters().queue_pairs_destroyed, before) << "that is the interface's thread's";
    destroy_drained();
    EXPECT_EQ(ending.size(), 0u);
    EXPECT_EQ(hca_counters().queue_pairs_destroyed, before + 1);
    ending.receives_done(qp);
    EXPECT_TRUE(drained.empty());
}

TEST_F(Ending, BelievesAnHcaThatSaysNothing)
{
    EXPECT_EQ(ending.next(), EndingQueuePairs::Clock::time_point::max());
    const auto before = EndingQueuePairs::Clock::now();
    verbs::QueuePair owned = make();
    ibv_qp* qp = owned.get();
    ending.end(std::move(owned));
    const auto deadline = ending.next();
    EXPECT_GE(deadline, before + std::chrono::milliseconds(500)) << "time to say so";
    ending.expire();
    EXPECT_TRUE(drained.empty());
    EXPECT_EQ(ending.next(), deadline);
    sleep_until(deadline);
    ending.expire();
    EXPECT_EQ(times_drained(qp), 1);
    EXPECT_EQ(ending.next(), EndingQueuePairs::Clock::time_point::max());
}

// The deadline of a queue pair that is gone is not that of another one at its address.
TEST_F(Ending, TellsQueuePairsAtOneAddressApart)
{
    verbs::QueuePair owned = make();
    ibv_qp* qp = owned.get();
    ending.end(std::move(owned));
    const auto first = ending.next();
    ending.receives_done(qp);
    destroy_drained();

    std::vector<verbs::QueuePair> others; // until one has the address
    do
        others.push_back(make());
    while (others.back().get() != qp && others.size() < 100);
    if (others.back().get() != qp) {
        GTEST_SKIP() << "no queue pair comes to the address of another";
    }
    sleep_until(first - std::chrono::milliseconds(300));
    ending.end(std::move(others.back()));
    sleep_until(first);
    ending.expire();
    EXPECT_TRUE(drained.empty());
    EXPECT_GT(ending.next(), first);
    sleep_until(ending.next());
    ending.expire();
    EXPECT_EQ(times_drained(qp), 1);
}

} // namespace
} // namespace rc_test
