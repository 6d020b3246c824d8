// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The budget of an endpoint, and the single work request that differs: what is taken comes back,
// and what has to be signalled is.
#include "rc_support.hpp"

#include "rc/endpoint.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <random>

namespace rc_test {
namespace {

constexpr unsigned kQueue = 64, kModeration = 8;

// An endpoint that is connected, of an interface without others.
class Budget : public testing::Test {
  protected:
    explicit Budget(const Variables& variables = {{"TX_QUEUE_LEN", std::to_string(kQueue)},
                                                  {"TX_MODERATION", std::to_string(kModeration)},
                                                  {"WINDOW", "64"}})
        : sender_(variables), receiver_(variables), key_(receiver_, word_, sizeof(word_)),
          ep_(std::make_unique<Endpoint>(sender_, receiver_))
    {
        total_ = iface().credits.available();
        EXPECT_EQ(retry(nodes_, [&] { return put_short(); }), UCS_OK);
    }

    gdr::rc::Iface& iface() { return gdr::rc::rc_iface(sender_.iface()); }
    gdr::rc::Endpoint& inner() { return gdr::rc::endpoint(*ep_); }

    ucs_status_t put_short()
    {
        return uct_ep_put_short(*ep_, word_, 8, reinterpret_cast<uint64_t>(word_), key_.rkey());
    }

    // Completions that are asked for by so many calls, none of which is polled.
    template <class Call>
    uint64_t signalled_by(int calls, Call call)
    {
        const uint64_t before = hca_counters().signaled;
        for (int i = 0; i < calls; ++i) {
            EXPECT_GE(call(), 0) << i;
        }
        return hca_counters().signaled - before;
    }

    char word_[8192] = {};
    Node sender_, receiver_;
    const std::vector<Node*> nodes_{&sender_, &receiver_};
    Registered key_;
    std::unique_ptr<Endpoint> ep_;
    int total_; // work requests that the interface may have outstanding
};

TEST_F(Budget, IsAccountedFor)
{
    std::mt19937 random(1);
    for (int i = 0; i < 3000; ++i) {
        switch (random() % 6) {
        case 0:
        case 1:
            (void)put_short();
            break;
        case 2:
            (void)uct_ep_am_short(*ep_, 1, 0, nullptr, 0);
            break;
        case 3:
            (void)inner().ready();
            break; // and then not posted
        default:
            sender_.progress();
            receiver_.progress();
        }
        const unsigned outstanding =
            static_cast<gdr::rc::SequenceNumber>(inner().posted() - inner().completed);
        ASSERT_EQ(iface().credits.available() + inner().budget + inner().single +
                      static_cast<int>(outstanding),
                  total_)
            << i;
        if (random() % 3 == 0) {
            ASSERT_EQ(inner().unsignalled() + inner().to_look, kModeration) << i;
        }
    }
}

TEST_F(Budget, OneInSoManyIsSignalled)
{
    inner().settle();
    const unsigned first = inner().to_look;
    EXPECT_EQ(signalled_by(kQueue / 2, [&] { return put_short(); }),
              1 + (kQueue / 2 - first) / kModeration);
}

TEST_F(Budget, AllAreSignalledWhereRoomIsScarce)
{
    inner().settle();
    iface().credits.set_scarce(iface().credits.available() - 2);
    inner().to_look = kModeration;
    EXPECT_EQ(signalled_by(2, [&] { return put_short(); }), 0u);
    EXPECT_EQ(signalled_by(4, [&] { return put_short(); }), 4u);
    iface().credits.set_scarce(0);
}

TEST_F(Budget, TheLastOfTheRoomCanBePosted)
{
    inner().settle();
    inner().to_look = 1;
    const int others = iface().credits.available() - 1;
    iface().credits.take(others);
    ASSERT_TRUE(inner().ready());
    EXPECT_EQ(inner().single, 1);
    EXPECT_TRUE(inner().can_post());
    EXPECT_EQ(put_short(), UCS_OK);
    EXPECT_FALSE(inner().can_post());
    iface().credits.give_back(others);
}

TEST_F(Budget, ComesBackWhenPostingIsRefused)
{
    for (const bool budgeted : {true, false}) {
        inner().settle();
        inner().to_look = budgeted ? kModeration : 1;
        ASSERT_TRUE(inner().ready());
        ASSERT_EQ(inner().budget > 0, budgeted);
        const auto post_send =
            iface().poster.post_by([](ibv_qp*, ibv_send_wr*, ibv_send_wr**) { return ENOMEM; });
        EXPECT_EQ(put_short(), UCS_ERR_IO_ERROR);
        iface().poster.post_by(post_send);
        ep_.reset();
        EXPECT_EQ(iface().credits.available(), total_);
        ep_ = std::make_unique<Endpoint>(sender_, receiver_);
        EXPECT_EQ(retry(nodes_, [&] { return put_short(); }), UCS_OK);
    }
}

// What an endpoint leaves behind in the completion queue is not that of the next one at its place.
TEST_F(Budget, OfTheNextEndpointAtItsPlace)
{
    inner().settle();
    inner().to_look = 1;
    uint64_t result = 0;
    Completion awaited;
    ASSERT_EQ(uct_ep_get_bcopy(
                  *ep_, [](void*, const void*, size_t) {}, &result, 8,
                  reinterpret_cast<uint64_t>(word_), key_.rkey(), &awaited),
              UCS_INPROGRESS);
    const uint64_t id = inner().id;
    ep_.reset(); // somebody waits: at once
    EXPECT_TRUE(awaited.done());
    EXPECT_EQ(iface().completions.saved(), 1u);
    ep_ = std::make_unique<Endpoint>(sender_, receiver_);
    const uint64_t place = (uint64_t{1} << gdr::rc::kSlotBits) - 1;
    ASSERT_EQ(inner().id & place, id & place);
    ASSERT_NE(inner().id, id);
    sender_.progress();
    EXPECT_EQ(iface().credits.available(), total_);
    EXPECT_EQ(inner().completed, inner().posted());
}

// As many as the queue has room for leave something to be done.
TEST_F(Budget, AllOfTheQueueLeaveSomethingToDo)
{
    ASSERT_EQ(flush(nodes_, *ep_), UCS_OK);
    size_t posted = 0, unpacked = 0;
    Completion awaited(static_cast<int>(kQueue) + 1);
    while (uct_ep_get_bcopy(
               *ep_, [](void* arg, const void*, size_t) { ++*static_cast<size_t*>(arg); },
               &unpacked, 8, reinterpret_cast<uint64_t>(word_), key_.rkey(),
               &awaited) == UCS_INPROGRESS) {
        ++posted;
    }
    EXPECT_EQ(posted, kQueue);
    EXPECT_TRUE(wait_until(
        nodes_, [&] { return unpacked == posted; }, 5));
}

// Of callers who do not ask what memory their buffers are.
struct ProtocolsV1 {
    ProtocolsV1() { setenv("UCX_PROTO_ENABLE", "n", 1); }
    ~ProtocolsV1() { setenv("UCX_PROTO_ENABLE", "y", 1); }
};
constexpr unsigned kFewBuffers = 8;
class BudgetOfAnyMemory : ProtocolsV1, public Budget {
  protected:
    BudgetOfAnyMemory() : Budget({{"TX_BUFFERS", std::to_string(kFewBuffers)}}) {}
};

TEST_F(BudgetOfAnyMemory, GetsTakeNoBufferThatIsNotThere)
{
    ASSERT_TRUE(iface().rules.any_memory);
    ASSERT_EQ(flush(nodes_, *ep_), UCS_OK);
    inner().settle();
    inner().to_look = iface().limits.moderation();
    ASSERT_TRUE(inner().ready());
    ASSERT_GT(inner().budget, static_cast<int>(kFewBuffers));
    Completion all(kFewBuffers);
    const auto get = [&] {
        return uct_ep_get_bcopy(
            *ep_, [](void* to, const void* from, size_t size) { std::memcpy(to, from, size); },
            word_ + 8, 8, reinterpret_cast<uint64_t>(word_), key_.rkey(), &all);
    };
    std::memcpy(word_, "of peers", 8);
    for (unsigned i = 0; i < kFewBuffers; ++i) {
        EXPECT_EQ(get(), UCS_INPROGRESS) << i;
    }
    ASSERT_GT(inner().budget, 0);
    EXPECT_EQ(get(), UCS_ERR_NO_RESOURCE);
    EXPECT_TRUE(wait_until(
        nodes_, [&] { return all.done(); }, 5));
    EXPECT_EQ(std::memcmp(word_ + 8, "of peers", 8), 0);
    EXPECT_EQ(iface().buffers->available(), kFewBuffers);
}

class BudgetOfBuffers : public Budget {
  protected:
    BudgetOfBuffers() : Budget({{"TX_MODERATION", "64"}, {"TX_BUFFERS", "64"}, {"WINDOW", "128"}})
    {
        EXPECT_EQ(retry(nodes_, [&] { return uct_ep_am_short(*ep_, 1, 0, nullptr, 0); }), UCS_OK);
        EXPECT_EQ(flush(nodes_, *ep_), UCS_OK);
        wait_until(nodes_, [&] { return receiver_.received_count == 1; });
        inner().settle();
        inner().to_look = iface().limits.moderation();
    }

    template <size_t length>
    static size_t pack(void*, void*)
    {
        return length;
    }
    template <size_t length>
    std::vector<std::function<ssize_t()>> calls()
    {
        return {[&] { return uct_ep_am_bcopy(*ep_, 1, pack<length>, nullptr, 0); },
                [&] {
                    return uct_ep_put_bcopy(*ep_, pack<length>, nullptr,
                                            reinterpret_cast<uint64_t>(word_), key_.rkey());
                }};
    }
    // Short, but longer than what fits into a work request.
    template <size_t length>
    std::vector<std::function<ssize_t()>> short_calls()
    {
        return {[&] { return uct_ep_am_short(*ep_, 1, 0, word_, length); },
                [&] {
                    const uct_iov_t piece = {word_, length, nullptr, 0, 1};
                    return uct_ep_am_short_iov(*ep_, 1, &piece, 1);
                },
                [&] {
                    return uct_ep_put_short(*ep_, word_, length, reinterpret_cast<uint64_t>(word_),
                                            key_.rkey());
                }};
    }
};

TEST_F(BudgetOfBuffers, ComeBackByTheirPayload)
{
    for (const auto& call : calls<8192>()) {
        ASSERT_EQ(flush(nodes_, *ep_), UCS_OK);
        inner().settle();
        inner().to_look = iface().limits.moderation();
        inner().buffered = 0;
        EXPECT_EQ(signalled_by(5, call), 1u); // after four of 8 KiB
    }
}

TEST_F(BudgetOfBuffers, ComeBackWhenTheyAreScarce)
{
    std::vector<std::function<ssize_t()>> all = calls<512>();
    std::ranges::copy(short_calls<512>(), std::back_inserter(all));
    for (const auto& call : all) {
        ASSERT_EQ(flush(nodes_, *ep_), UCS_OK);
        inner().settle();
        inner().to_look = iface().limits.moderation();
        inner().buffered = 0;
        ASSERT_EQ(iface().buffers->available(), 64u);
        EXPECT_EQ(signalled_by(33, call), 0u); // half of them
        EXPECT_EQ(signalled_by(4, call), 4u);
    }
}

} // namespace
} // namespace rc_test
