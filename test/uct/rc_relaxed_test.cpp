// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// HCAs that have registrations with relaxed ordering of PCIe alone: what is written after a fence
// or a flush waits for a read of the same memory.
#include "rc_support.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include <unistd.h>

namespace rc_test {
namespace {

class Relaxed : public testing::Test {
  protected:
    void SetUp() override
    {
        ASSERT_EQ(retry(nodes, [&] { return uct_ep_am_short(ep, 0, 0, nullptr, 0); }), UCS_OK);
        reads();
    }

    void put(const Registered& memory, uint64_t* word)
    {
        EXPECT_EQ(uct_ep_put_short(ep, &value, sizeof(value), reinterpret_cast<uint64_t>(word),
                                   memory.rkey()),
                  UCS_OK);
        ASSERT_TRUE(wait_until(nodes, [&] { return std::atomic_ref(*word) == value; }));
        ++value;
    }
    void fence() { EXPECT_EQ(uct_ep_fence(ep, 0), UCS_OK); }

    // Since the last call.
    uint64_t reads()
    {
        const uint64_t now = hca_counters().reads;
        return now - std::exchange(reads_, now);
    }

    Node sender, receiver;
    std::vector<Node*> nodes{&sender, &receiver};
    Endpoint ep{sender, receiver};
    alignas(4096) uint64_t words[2][512] = {};
    Registered first{receiver, words[0], sizeof(words[0])};
    Registered second{receiver, words[1], sizeof(words[1])};
    uint64_t value = 1;

  private:
    uint64_t reads_ = 0;
};

// Nothing is added where registrations are strict.
TEST_F(Relaxed, NotWithTheOthers)
{
    put(first, words[0]);
    fence();
    put(first, words[0]);
    EXPECT_EQ(reads(), 0u);
    EXPECT_EQ(hca_counters().registrations_relaxed, 0u);
}

TEST_F(Relaxed, DISABLED_ReadsOnceForEachOrderAndKey)
{
    EXPECT_GT(hca_counters().registrations_relaxed, 0u);
    EXPECT_EQ(hca_counters().registrations_relaxed, hca_counters().registrations);
    put(first, words[0]);
    EXPECT_EQ(reads(), 0u) << "there is no order yet";
    fence();
    put(first, words[0]);
    put(first, words[0] + 1);
    EXPECT_EQ(reads(), 1u);
    put(second, words[1]);
    EXPECT_EQ(reads(), 1u);
    put(second, words[1]);
    put(first, words[0]);
    EXPECT_EQ(reads(), 0u);
    fence();
    EXPECT_EQ(uct_ep_am_short(ep, 0, 0, nullptr, 0), UCS_OK);
    EXPECT_EQ(reads(), 0u);
    put(first, words[0]);
    EXPECT_EQ(reads(), 1u) << "a message has come between";
    EXPECT_EQ(flush(nodes, ep), UCS_OK);
    put(first, words[0]);
    EXPECT_EQ(reads(), 1u) << "a flush says that the HCA has it, no more";
    fence();
    const auto address = reinterpret_cast<uint64_t>(words[0]);
    EXPECT_EQ(uct_ep_atomic64_post(ep, UCT_ATOMIC_OP_ADD, 1, address, first.rkey()), UCS_OK);
    EXPECT_EQ(flush(nodes, ep), UCS_OK);
    EXPECT_EQ(words[0][0], value++);
    EXPECT_EQ(reads(), 1u);
}

TEST_F(Relaxed, DISABLED_ReadsNothingForNothing)
{
    fence();
    EXPECT_EQ(
        uct_ep_put_short(ep, nullptr, 0, reinterpret_cast<uint64_t>(words[1] + 512), second.rkey()),
        UCS_OK);
    EXPECT_EQ(uct_ep_put_zcopy(ep, nullptr, 0, 0, UCT_INVALID_RKEY, nullptr), UCS_OK);
    EXPECT_EQ(flush(nodes, ep), UCS_OK);
    EXPECT_EQ(reads(), 0u);
    put(second, words[1]);
    EXPECT_EQ(reads(), 1u);
}

void passes_with_relaxed_keys_alone(const std::string& tests)
{
    const Outcome outcome =
        run_self({{"SOFTHCA_PROFILE", "relaxed_only"},
                  {"SOFTHCA_FABRIC", "rc_relaxed-" + std::to_string(getpid())}},
                 {"--gtest_filter=" + tests, "--gtest_also_run_disabled_tests"});
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_EQ(outcome.text.find("[  PASSED  ] 0 tests"), std::string::npos) << outcome.text;
}

TEST(RelaxedAlone, WritesAfterAnOrderWaitForARead)
{
    ONLY_ON_SOFTHCA("keys that are relaxed alone are not libmlx5's");
    passes_with_relaxed_keys_alone("Relaxed.DISABLED_*");
}

TEST(RelaxedAlone, AllElseIsAsEver)
{
    ONLY_ON_SOFTHCA("keys that are relaxed alone are not libmlx5's");
    passes_with_relaxed_keys_alone("Fence.*");
}

} // namespace
} // namespace rc_test
