// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Many atomics at once on one word, of which the HCA has some and others are made of several work
// requests: how many these are, and what everybody is told was there before.
#include "rc_support.hpp"

#include "rc/endpoint.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

namespace rc_test {
namespace {

// Work requests that read or change memory atomically.
uint64_t requests()
{
    struct softhca_counters counters = hca_counters();
    return counters.reads + counters.atomics;
}

template <typename T>
struct Fetch {
    T old = 0;
    Completion done;
};

class Contention : public testing::Test {
  protected:
    static constexpr unsigned kAtomics = 1000;

    Node a, b, target;
    std::vector<Node*> nodes{&a, &b, &target};
    Endpoint first{a, target}, second{b, target};
    alignas(8) uint32_t halves[2] = {0, 0};
    alignas(8) uint64_t whole = 0;
    Registered half_key{target, halves, sizeof(halves)};
    Registered whole_key{target, &whole, sizeof(whole)};

    uint64_t half(unsigned i) const { return reinterpret_cast<uint64_t>(&halves[i]); }
    uint64_t word() const { return reinterpret_cast<uint64_t>(&whole); }

    void SetUp() override
    {
        for (Endpoint* ep : {&first, &second}) { // connects
            ASSERT_EQ(retry(nodes, [&] { return uct_ep_am_short(*ep, 0, 0, nullptr, 0); }), UCS_OK);
            ASSERT_EQ(flush(nodes, *ep), UCS_OK);
        }
    }

    // Starts as many as there are resources for, again and again; all are complete afterwards.
    void post_all(const std::function<ucs_status_t(unsigned)>& atomic)
    {
        unsigned posted = 0;
        ASSERT_TRUE(wait_until(nodes, [&] {
            while (posted < kAtomics) {
                ucs_status_t status = atomic(posted);
                if (status == UCS_ERR_NO_RESOURCE) {
                    break;
                }
                EXPECT_TRUE(status == UCS_OK || status == UCS_INPROGRESS);
                ++posted;
            }
            return posted == kAtomics;
        }));
        ASSERT_EQ(flush(nodes, first), UCS_OK);
    }

    void expect_few(const char* what, const std::function<ucs_status_t(unsigned)>& atomic)
    {
        const uint64_t before = requests();
        post_all(atomic);
        EXPECT_LE(requests() - before, 2 * kAtomics) << what;
    }
};

TEST_F(Contention, OfOneEndpointTakesFewRequests)
{
    expect_few("one half", [&](unsigned) {
        return uct_ep_atomic32_post(first, UCT_ATOMIC_OP_ADD, 1, half(0), half_key.rkey());
    });
    EXPECT_EQ(halves[0], kAtomics);
    EXPECT_EQ(halves[1], 0u);
    expect_few("both halves", [&](unsigned i) {
        return uct_ep_atomic32_post(first, UCT_ATOMIC_OP_ADD, 1, half(i % 2), half_key.rkey());
    });
    EXPECT_EQ(halves[0], kAtomics + kAtomics / 2);
    EXPECT_EQ(halves[1], kAtomics / 2);
    expect_few("one word", [&](unsigned i) {
        return uct_ep_atomic64_post(first, UCT_ATOMIC_OP_XOR, uint64_t{1} << i % 64, word(),
                                    whole_key.rkey());
    });
    uint64_t expected = 0;
    for (unsigned i = 0; i < kAtomics; ++i) {
        expected ^= uint64_t{1} << i % 64;
    }
    EXPECT_EQ(whole, expected);
    whole = 0;
    expect_few("with others that the HCA has", [&](unsigned i) {
        return uct_ep_atomic64_post(first, i % 2 == 0 ? UCT_ATOMIC_OP_OR : UCT_ATOMIC_OP_ADD,
                                    i % 2 == 0 ? uint64_t{1} << 63 : 1, word(), whole_key.rkey());
    });
    EXPECT_EQ(whole, (uint64_t{1} << 63) + kAtomics / 2);
}

// Each is told what those posted before it left.
TEST_F(Contention, ResultsAreInTheOrderOfPosting)
{
    constexpr uct_atomic_op_t kOperations[] = {UCT_ATOMIC_OP_XOR, UCT_ATOMIC_OP_ADD,
                                               UCT_ATOMIC_OP_SWAP, UCT_ATOMIC_OP_CSWAP};
    std::deque<Fetch<uint64_t>> fetched(kAtomics);
    post_all([&](unsigned i) {
        Fetch<uint64_t>& fetch = fetched[i];
        uct_atomic_op_t operation = kOperations[i % 4];
        return operation == UCT_ATOMIC_OP_CSWAP
                   // the value that the swap before it left, or another one
                   ? uct_ep_atomic_cswap64(first, i % 8 == 3 ? i - 1 : 0, i, word(),
                                           whole_key.rkey(), &fetch.old, &fetch.done)
                   : uct_ep_atomic64_fetch(first, operation, i, &fetch.old, word(),
                                           whole_key.rkey(), &fetch.done);
    });
    uint64_t value = 0;
    for (unsigned i = 0; i < kAtomics; ++i) {
        ASSERT_TRUE(fetched[i].done.done()) << i;
        ASSERT_EQ(fetched[i].done.status, UCS_OK) << i;
        ASSERT_EQ(fetched[i].old, value) << i;
        value = i % 4 == 0   ? value ^ i
                : i % 4 == 1 ? value + i
                : i % 4 == 2 ? i
                : i % 8 == 3 ? i
                             : value;
    }
    EXPECT_EQ(whole, value);
}

// Adds of one, to a half, by two initiators and by two endpoints of one of them, and others to the
// other half: each value is somebody's, and everybody sees them rise.
TEST_F(Contention, OfSeveralInitiators)
{
    constexpr unsigned kEach = 3000;
    Endpoint third(a, target);
    uct_ep_h eps[3] = {first, second, third};
    std::vector<Fetch<uint32_t>> fetched[3];
    unsigned posted[3] = {};
    for (auto& fetches : fetched) {
        fetches = std::vector<Fetch<uint32_t>>(kEach);
    }
    const uint64_t before = requests();
    ASSERT_TRUE(wait_until(nodes, [&] {
        for (unsigned i = 0; i < 3; ++i) {
            for (unsigned burst = 0; burst < 50 && posted[i] < kEach; ++burst) {
                Fetch<uint32_t>& fetch = fetched[i][posted[i]];
                ucs_status_t status =
                    uct_ep_atomic32_fetch(eps[i], UCT_ATOMIC_OP_ADD, 1, &fetch.old, half(0),
                                          half_key.rkey(), &fetch.done);
                if (status != UCS_INPROGRESS) {
                    break;
                }
                ++posted[i];
            }
            (void)uct_ep_atomic32_post(eps[i], UCT_ATOMIC_OP_XOR, 1u << i, half(1),
                                       half_key.rkey());
        }
        return posted[0] + posted[1] + posted[2] == 3 * kEach;
    }));
    for (uct_ep_h ep : eps) {
        ASSERT_EQ(flush(nodes, ep), UCS_OK);
    }
    EXPECT_LE(requests() - before, 3 * 3 * kEach);
    std::vector<uint32_t> all;
    for (const auto& fetches : fetched) {
        for (const Fetch<uint32_t>& fetch : fetches) {
            ASSERT_TRUE(fetch.done.done());
            ASSERT_EQ(fetch.done.status, UCS_OK);
            all.push_back(fetch.old);
        }
        EXPECT_TRUE(std::is_sorted(all.end() - kEach, all.end()));
    }
    std::sort(all.begin(), all.end());
    for (unsigned i = 0; i < 3 * kEach; ++i) {
        ASSERT_EQ(all[i], i);
    }
    EXPECT_EQ(halves[0], 3 * kEach);
    EXPECT_LT(halves[1], 8u);
}

// What was read before an operation began says nothing about it: its initiator may know better.
TEST_F(Contention, AnOldValueIsNotForWhatCameLater)
{
    Fetch<uint32_t> early, late;
    halves[0] = 5;
    ASSERT_EQ(uct_ep_atomic_cswap32(first, 7, 8, half(0), half_key.rkey(), &early.old, &early.done),
              UCS_INPROGRESS);
    ASSERT_FALSE(wait_until(
        {&target}, [] { return false; }, 0.01)); // it has been read meanwhile
    halves[0] = 7;
    ASSERT_EQ(uct_ep_atomic_cswap32(first, 7, 9, half(0), half_key.rkey(), &late.old, &late.done),
              UCS_INPROGRESS);
    ASSERT_EQ(flush(nodes, first), UCS_OK);
    EXPECT_EQ(early.old, 5u);
    EXPECT_EQ(late.old, 7u);
    EXPECT_EQ(halves[0], 9u);
}

// A callback's atomic on the word that is being worked on.
TEST_F(Contention, OfCallbacks)
{
    struct Again : uct_completion_t {
        uct_ep_h ep;
        uint64_t address;
        uct_rkey_t rkey;
        uint32_t old;
        std::vector<uint32_t> seen;
        unsigned left;

        ucs_status_t start()
        {
            count = 1;
            return uct_ep_atomic32_fetch(ep, UCT_ATOMIC_OP_ADD, 1, &old, address, rkey, this);
        }
    } chains[3] = {};
    for (Again& chain : chains) {
        chain.ep = first;
        chain.address = half(0);
        chain.rkey = half_key.rkey();
        chain.left = 200;
        chain.func = [](uct_completion_t* self) {
            auto& again = *static_cast<Again*>(self);
            again.seen.push_back(again.old);
            if (--again.left > 0) {
                EXPECT_EQ(again.start(), UCS_INPROGRESS);
            }
        };
        ASSERT_EQ(chain.start(), UCS_INPROGRESS);
    }
    ASSERT_TRUE(wait_until(nodes, [&] {
        return std::all_of(chains, chains + 3, [](const Again& chain) { return chain.left == 0; });
    }));
    std::vector<uint32_t> all;
    for (const Again& chain : chains) {
        all.insert(all.end(), chain.seen.begin(), chain.seen.end());
    }
    std::sort(all.begin(), all.end());
    for (unsigned i = 0; i < all.size(); ++i) {
        ASSERT_EQ(all[i], i);
    }
    EXPECT_EQ(flush(nodes, first), UCS_OK);
}

// A flush waits for what was posted before it, and no longer, however much follows on the word.
TEST_F(Contention, FlushEndsThoughMoreFollow)
{
    for (unsigned round = 0; round < 100; ++round) {
        auto add = [&] {
            return uct_ep_atomic32_post(first, UCT_ATOMIC_OP_ADD, 1, half(0), half_key.rkey());
        };
        halves[0] = 0;
        for (unsigned i = 0; i < 10; ++i) {
            ASSERT_EQ(add(), UCS_OK);
        }
        Completion done;
        ASSERT_EQ(uct_ep_flush(first, UCT_FLUSH_FLAG_LOCAL, &done), UCS_INPROGRESS);
        ASSERT_TRUE(wait_until(
            nodes,
            [&] {
                (void)add();
                return done.done();
            },
            20));
        EXPECT_GE(*const_cast<volatile uint32_t*>(halves), 10u);
        ASSERT_EQ(flush(nodes, first), UCS_OK);
    }
}

// Those that wait for another one fail with it and with their endpoint; what they held is free
// again.
TEST_F(Contention, AllFailTogether)
{
    for (bool destroyed : {false, true}) {
        std::deque<Fetch<uint32_t>> fetched(100);
        {
            Endpoint ep(a, target);
            ASSERT_EQ(retry(nodes, [&] { return uct_ep_am_short(ep, 0, 0, nullptr, 0); }), UCS_OK);
            ASSERT_EQ(flush(nodes, ep), UCS_OK);
            uct_rkey_t key = destroyed ? half_key.rkey() : half_key.rkey() ^ 0x00ffff00;
            ASSERT_EQ(uct_ep_atomic32_post(ep, UCT_ATOMIC_OP_ADD, 1, half(1), key), UCS_OK);
            for (Fetch<uint32_t>& fetch : fetched) {
                ASSERT_EQ(uct_ep_atomic32_fetch(ep, UCT_ATOMIC_OP_ADD, 1, &fetch.old, half(0), key,
                                                &fetch.done),
                          UCS_INPROGRESS);
            }
            if (!destroyed) {
                ASSERT_TRUE(wait_until(nodes, [&] { return fetched.back().done.done(); }));
            }
        }
        for (const Fetch<uint32_t>& fetch : fetched) {
            ASSERT_EQ(fetch.done.count, 0);
            ASSERT_NE(fetch.done.status, UCS_OK);
        }
    }
    halves[0] = 0;
    post_all([&](unsigned) {
        return uct_ep_atomic32_post(first, UCT_ATOMIC_OP_ADD, 1, half(0), half_key.rkey());
    });
    EXPECT_EQ(halves[0], kAtomics);
}

// One endpoint leaves others buffers, and has all its work requests again afterwards.
TEST_F(Contention, LeavesBuffersToOthers)
{
    auto add = [&] {
        return uct_ep_atomic32_post(first, UCT_ATOMIC_OP_ADD, 1, half(0), half_key.rkey());
    };
    for (unsigned round = 0; round < 3; ++round) {
        unsigned posted = 0;
        while (add() == UCS_OK) {
            ++posted;
        }
        EXPECT_EQ(posted, 256u); // UCX_GDR_RC_TX_QUEUE_LEN
        EXPECT_GT(gdr::rc::endpoint(first).iface().buffers->available(), 200u);
        ASSERT_EQ(flush(nodes, first), UCS_OK);
    }
    EXPECT_EQ(halves[0], 3 * 256u);
}

// Posted ones are complete for the user: they arrive though the endpoint is destroyed.
TEST_F(Contention, DestroyedEndpointDeliversAll)
{
    for (unsigned round = 1; round <= 20; ++round) {
        Endpoint ep(a, target);
        for (unsigned i = 0; i < 50; ++i) {
            ASSERT_EQ(retry(nodes,
                            [&] {
                                return uct_ep_atomic32_post(ep, UCT_ATOMIC_OP_ADD, 1, half(i % 2),
                                                            half_key.rkey());
                            }),
                      UCS_OK);
        }
        ep.destroy();
        ASSERT_TRUE(wait_until(
            nodes,
            [&] {
                volatile uint32_t* now = halves;
                return now[0] == 25 * round && now[1] == 25 * round;
            },
            20));
    }
}

} // namespace
} // namespace rc_test
