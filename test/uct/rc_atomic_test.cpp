// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Atomics of the RC transport against a model: every operation and size, results, neighbours in the
// same word, contention, order behind flush and fence.
#include "rc_support.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace rc_test {
namespace {

constexpr uct_atomic_op_t kOperations[] = {UCT_ATOMIC_OP_ADD,  UCT_ATOMIC_OP_AND,
                                           UCT_ATOMIC_OP_OR,   UCT_ATOMIC_OP_XOR,
                                           UCT_ATOMIC_OP_SWAP, UCT_ATOMIC_OP_CSWAP};

template <typename T>
T model(uct_atomic_op_t operation, T old, T operand, T compare)
{
    switch (operation) {
    case UCT_ATOMIC_OP_ADD:
        return old + operand;
    case UCT_ATOMIC_OP_AND:
        return old & operand;
    case UCT_ATOMIC_OP_OR:
        return old | operand;
    case UCT_ATOMIC_OP_XOR:
        return old ^ operand;
    case UCT_ATOMIC_OP_SWAP:
        return operand;
    default:
        return old == compare ? operand : old;
    }
}

template <typename T>
ucs_status_t fetch(uct_ep_h ep, uct_atomic_op_t operation, T operand, T compare, uint64_t address,
                   uct_rkey_t rkey, T* result, uct_completion_t* done)
{
    if constexpr (sizeof(T) == 4) {
        return operation == UCT_ATOMIC_OP_CSWAP
                   ? uct_ep_atomic_cswap32(ep, compare, operand, address, rkey, result, done)
                   : uct_ep_atomic32_fetch(ep, operation, operand, result, address, rkey, done);
    } else {
        return operation == UCT_ATOMIC_OP_CSWAP
                   ? uct_ep_atomic_cswap64(ep, compare, operand, address, rkey, result, done)
                   : uct_ep_atomic64_fetch(ep, operation, operand, result, address, rkey, done);
    }
}

template <typename T>
ucs_status_t post(uct_ep_h ep, uct_atomic_op_t operation, T operand, uint64_t address,
                  uct_rkey_t rkey)
{
    if constexpr (sizeof(T) == 4) {
        return uct_ep_atomic32_post(ep, operation, operand, address, rkey);
    } else {
        return uct_ep_atomic64_post(ep, operation, operand, address, rkey);
    }
}

class Atomic : public testing::Test {
  protected:
    Node a, b, target;
    std::vector<Node*> nodes{&a, &b, &target};
    Endpoint first{a, target}, second{b, target};

    template <typename T>
    void every_operation(Memory memory)
    {
        // In a row of words, so that neighbours are seen to stay.
        constexpr size_t kWords = 16;
        Buffer buffer(memory, kWords * sizeof(T));
        Registered registered(target, buffer);
        std::vector<T> words(kWords);
        std::string seed = pattern(buffer.length(), 77);
        memcpy(words.data(), seed.data(), seed.size());
        copy(buffer.data(), words.data(), buffer.length());
        auto check = [&](const char* what, int operation) {
            std::vector<T> now(kWords);
            copy(now.data(), buffer.data(), buffer.length());
            EXPECT_EQ(now, words) << what << " " << operation;
        };
        unsigned step = 0;
        for (uct_atomic_op_t operation : kOperations) {
            for (size_t index : {size_t{3}, size_t{4}, kWords - 1}) {
                T operand;
                std::string bytes = pattern(sizeof(T), ++step);
                memcpy(&operand, bytes.data(), sizeof(T));
                for (bool matches : {false, true}) {
                    T compare = matches ? words[index] : words[index] + 1;
                    T result = 0;
                    T old = words[index];
                    Completion done;
                    ucs_status_t status = retry(nodes, [&] {
                        return fetch<T>(first, operation, operand, compare,
                                        buffer.address() + index * sizeof(T), registered.rkey(),
                                        &result, &done);
                    });
                    ASSERT_EQ(status, UCS_INPROGRESS);
                    ASSERT_TRUE(wait_until(nodes, [&] { return done.done(); }));
                    ASSERT_EQ(done.status, UCS_OK);
                    EXPECT_EQ(result, old) << "operation " << operation;
                    words[index] = model<T>(operation, old, operand, compare);
                    check("fetch", operation);
                }
                if (operation <= UCT_ATOMIC_OP_XOR && operation != UCT_ATOMIC_OP_SWAP) {
                    ASSERT_EQ(retry(nodes,
                                    [&] {
                                        return post<T>(first, operation, operand,
                                                       buffer.address() + index * sizeof(T),
                                                       registered.rkey());
                                    }),
                              UCS_OK);
                    ASSERT_EQ(flush(nodes, first), UCS_OK);
                    words[index] = model<T>(operation, words[index], operand, 0);
                    check("post", operation);
                }
            }
        }
    }
};

TEST_F(Atomic, EveryOperationOn32BitsOfHost)
{
    every_operation<uint32_t>(Memory::host);
}
TEST_F(Atomic, EveryOperationOn64BitsOfHost)
{
    every_operation<uint64_t>(Memory::host);
}
TEST_F(Atomic, EveryOperationOn32BitsOfDevice)
{
    every_operation<uint32_t>(Memory::device);
}
TEST_F(Atomic, EveryOperationOn64BitsOfDevice)
{
    every_operation<uint64_t>(Memory::device);
}

TEST_F(Atomic, LastFourBytesOfAnAllocation)
{
    for (size_t length : {4ul, 12ul}) {
        copy_test::Current current(copy_test::primary_context(0));
        CUdeviceptr memory = 0;
        require(cuMemAlloc(&memory, length), "cuMemAlloc");
        std::vector<uint32_t> words(length / 4, 40);
        copy(reinterpret_cast<void*>(memory), words.data(), length);
        {
            Registered registered(target, reinterpret_cast<void*>(memory), length);
            ASSERT_EQ(retry(nodes,
                            [&] {
                                return uct_ep_atomic32_post(first, UCT_ATOMIC_OP_ADD, 2,
                                                            memory + length - 4, registered.rkey());
                            }),
                      UCS_OK);
            EXPECT_EQ(flush(nodes, first), UCS_OK);
            EXPECT_TRUE(a.failures.empty());
            copy(words.data(), reinterpret_cast<void*>(memory), length);
            EXPECT_EQ(words.back(), 42u);
        }
        cuMemFree(memory);
    }
}

// Both endpoints at both halves of one word, and at all of another: no change is lost.
TEST_F(Atomic, Contention)
{
    alignas(8) uint32_t halves[2] = {0, 0x80000000};
    alignas(8) uint64_t whole = 0;
    Registered half_key(target, halves, sizeof(halves));
    Registered whole_key(target, &whole, sizeof(whole));
    constexpr unsigned kRounds = 2000;
    unsigned posted[2] = {0, 0};
    Endpoint* endpoints[2] = {&first, &second};
    bool in_time = wait_until(
        nodes,
        [&] {
            for (unsigned i = 0; i < 2; ++i) {
                uct_ep_h ep = *endpoints[i];
                unsigned& count = posted[i];
                for (unsigned burst = 0; burst < 8 && count < 4 * kRounds; ++burst) {
                    uint64_t address = reinterpret_cast<uint64_t>(&halves[count % 2]);
                    ucs_status_t status =
                        count % 4 < 2 ? uct_ep_atomic32_post(ep, UCT_ATOMIC_OP_ADD, 1, address,
                                                             half_key.rkey())
                        : count % 4 == 2
                            ? uct_ep_atomic64_post(ep, UCT_ATOMIC_OP_ADD, 1,
                                                   reinterpret_cast<uint64_t>(&whole),
                                                   whole_key.rkey())
                            : uct_ep_atomic64_post(ep, UCT_ATOMIC_OP_XOR, 1ull << (40 + i),
                                                   reinterpret_cast<uint64_t>(&whole),
                                                   whole_key.rkey());
                    if (status != UCS_OK) {
                        break;
                    }
                    ++count;
                }
            }
            return posted[0] == 4 * kRounds && posted[1] == 4 * kRounds;
        },
        120);
    ASSERT_TRUE(in_time) << posted[0] << " " << posted[1];
    ASSERT_EQ(flush(nodes, first), UCS_OK);
    ASSERT_EQ(flush(nodes, second), UCS_OK);
    EXPECT_EQ(halves[0], 2 * kRounds);
    EXPECT_EQ(halves[1], 0x80000000 + 2 * kRounds);
    EXPECT_EQ(whole, 2 * kRounds); // an even number of exclusive ors
}

// A flush waits for the last step of an atomic that takes several, also when other operations, that
// nobody signals, come in between.
TEST_F(Atomic, FlushWaitsForAllSteps)
{
    alignas(8) uint32_t words[4] = {};
    char byte = 0;
    Registered key(target, words, sizeof(words));
    Registered byte_key(target, &byte, sizeof(byte));
    ASSERT_EQ(retry(nodes,
                    [&] {
                        return uct_ep_put_short(first, "", 1, reinterpret_cast<uint64_t>(&byte),
                                                byte_key.rkey());
                    }),
              UCS_OK);
    for (uint32_t round = 1; round <= 300; ++round) {
        for (uint32_t& word : words) {
            ASSERT_EQ(retry(nodes,
                            [&] {
                                return uct_ep_atomic32_post(first, UCT_ATOMIC_OP_ADD, 1,
                                                            reinterpret_cast<uint64_t>(&word),
                                                            key.rkey());
                            }),
                      UCS_OK);
        }
        Completion done;
        uint32_t seen[4] = {};
        ucs_status_t status =
            retry(nodes, [&] { return uct_ep_flush(first, UCT_FLUSH_FLAG_LOCAL, &done); });
        ASSERT_EQ(status, UCS_INPROGRESS);
        for (unsigned puts = 0; puts < round % 5; ++puts) {
            (void)uct_ep_put_short(first, "y", 1, reinterpret_cast<uint64_t>(&byte),
                                   byte_key.rkey());
        }
        ASSERT_TRUE(wait_until(
            nodes,
            [&] {
                if (!done.done()) {
                    (void)uct_ep_put_short(first, "x", 1, reinterpret_cast<uint64_t>(&byte),
                                           byte_key.rkey());
                }
                return done.done();
            },
            20))
            << "round " << round;
        memcpy(seen, words, sizeof(words));
        for (uint32_t word : seen) {
            ASSERT_EQ(word, round);
        }
    }
}

// Without traffic behind it either.
TEST_F(Atomic, FlushCompletesBehindUnsignalledOperations)
{
    alignas(8) uint32_t words[4] = {};
    Registered key(target, words, sizeof(words));
    for (unsigned round = 0; round < 200; ++round) {
        for (uint32_t& word : words) {
            ASSERT_EQ(retry(nodes,
                            [&] {
                                return uct_ep_atomic32_post(first, UCT_ATOMIC_OP_ADD, 1,
                                                            reinterpret_cast<uint64_t>(&word),
                                                            key.rkey());
                            }),
                      UCS_OK);
        }
        Completion done;
        ASSERT_EQ(retry(nodes, [&] { return uct_ep_flush(first, UCT_FLUSH_FLAG_LOCAL, &done); }),
                  UCS_INPROGRESS);
        for (unsigned i = 0; i < round % 7; ++i) {
            a.progress();
        }
        uint64_t zero = 0;
        (void)uct_ep_put_short(first, &zero, 0, reinterpret_cast<uint64_t>(words), key.rkey());
        ASSERT_TRUE(wait_until(
            nodes, [&] { return done.done(); }, 20))
            << "round " << round;
    }
}

// What comes after a fence does not overtake an atomic of several steps.
TEST_F(Atomic, FenceHoldsLaterOperations)
{
    for (bool whole_iface : {false, true}) {
        for (unsigned round = 0; round < 100; ++round) {
            alignas(8) volatile uint32_t words[2] = {1, 1};
            Registered key(target, const_cast<uint32_t*>(words), sizeof(words));
            auto address = reinterpret_cast<uint64_t>(words);
            ASSERT_EQ(retry(nodes,
                            [&] {
                                return uct_ep_atomic32_post(first, UCT_ATOMIC_OP_ADD, 5, address,
                                                            key.rkey());
                            }),
                      UCS_OK);
            ASSERT_EQ(whole_iface ? uct_iface_fence(a.iface(), 0) : uct_ep_fence(first, 0), UCS_OK);
            uint32_t value = 100;
            ASSERT_EQ(retry(nodes,
                            [&] {
                                return uct_ep_put_short(first, &value, sizeof(value), address,
                                                        key.rkey());
                            }),
                      UCS_OK);
            ASSERT_EQ(flush(nodes, first), UCS_OK);
            ASSERT_EQ(words[0], 100u);
            ASSERT_EQ(words[1], 1u);
        }
    }
}

} // namespace
} // namespace rc_test
