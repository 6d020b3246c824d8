// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Completion and order on the RC transport: flush, fence, requests that wait, moderated
// completions, sleeping.
#include "rc_support.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <thread>

#include <poll.h>
#include <unistd.h>

namespace rc_test {
namespace {

const Variables kSmallQueue{{"TX_QUEUE_LEN", "16"}, {"TX_BUFFERS", "8"}};

class Order : public testing::Test {
  protected:
    Node sender{kSmallQueue}, receiver;
    std::vector<Node*> nodes{&sender, &receiver};
    Endpoint ep{sender, receiver};

    void SetUp() override
    {
        ASSERT_EQ(retry(nodes, [&] { return uct_ep_am_short(ep, 0, 0, nullptr, 0); }), UCS_OK);
        ASSERT_EQ(flush(nodes, ep), UCS_OK);
        ASSERT_TRUE(wait_until(nodes, [&] { return receiver.received_count == 1; }));
        receiver.received.clear();
    }

    uint64_t number(size_t message) const
    {
        return *reinterpret_cast<const uint64_t*>(receiver.received[message].data.data());
    }
};

TEST_F(Order, FlushOfNothing)
{
    Completion done;
    EXPECT_EQ(uct_ep_flush(ep, UCT_FLUSH_FLAG_LOCAL, &done), UCS_OK);
    EXPECT_EQ(done.count, 1) << "returned complete and called back";
    EXPECT_EQ(uct_iface_flush(sender.iface(), UCT_FLUSH_FLAG_LOCAL, nullptr), UCS_OK);
}

TEST_F(Order, FlushMeansArrived)
{
    std::vector<char> target(100);
    Registered key(receiver, target.data(), target.size());
    for (unsigned round = 0; round < 200; ++round) {
        for (char value = 1; value <= 5; ++value) {
            ASSERT_EQ(retry(nodes,
                            [&] {
                                return uct_ep_put_short(
                                    ep, &value, 1, reinterpret_cast<uint64_t>(&target[round % 100]),
                                    key.rkey());
                            }),
                      UCS_OK);
        }
        if (round % 3 == 0) {
            Completion done;
            ASSERT_EQ(retry(nodes, [&] { return uct_ep_flush(ep, UCT_FLUSH_FLAG_LOCAL, &done); }),
                      UCS_INPROGRESS);
            ASSERT_TRUE(wait_until({&sender}, [&] { return done.done(); }));
            ASSERT_EQ(done.status, UCS_OK);
        } else if (round % 3 == 1) {
            ASSERT_TRUE(wait_until(
                {&sender}, [&] { return uct_iface_flush(sender.iface(), 0, nullptr) == UCS_OK; }));
        } else {
            ASSERT_EQ(flush({&sender}, ep), UCS_OK);
        }
        ASSERT_EQ(target[round % 100], 5);
    }
}

// A flush after as many operations as the last time needs no work request of its own, and one after
// fewer or more is as good.
TEST_F(Order, FlushAtRegularDistances)
{
    constexpr unsigned kRounds = 20;
    uint64_t target = 0;
    Registered key(receiver, &target, sizeof(target));
    uint64_t value = 0;
    const auto put_and_flush = [&](unsigned count) {
        for (unsigned i = 0; i < count; ++i) {
            ++value;
            ASSERT_EQ(retry(nodes,
                            [&] {
                                return uct_ep_put_short(ep, &value, sizeof(value),
                                                        reinterpret_cast<uint64_t>(&target),
                                                        key.rkey());
                            }),
                      UCS_OK);
        }
        ASSERT_EQ(flush(nodes, ep), UCS_OK);
        ASSERT_EQ(target, value);
    };
    for (const unsigned count : {1, 3, 40}) {
        put_and_flush(count);
        const uint64_t before = hca_counters().writes;
        for (unsigned round = 0; round < kRounds; ++round) {
            put_and_flush(count);
        }
        EXPECT_EQ(hca_counters().writes - before, kRounds * count) << count;
    }
    for (unsigned round = 0; round < 5 * kRounds; ++round) {
        put_and_flush(1 + round * 7 % 150);
    }
}

// A read before a fence is not overtaken by a write behind it.
TEST_F(Order, FenceBetweenReadAndWrite)
{
    constexpr size_t kLength = 1 << 20;
    Buffer source(Memory::host, kLength), here(Memory::host, kLength), other(Memory::host, kLength);
    Registered source_key(receiver, source), here_key(sender, here), other_key(sender, other);
    for (unsigned round = 0; round < 20; ++round) {
        source.fill(2 * round);
        other.fill(2 * round + 1);
        uct_iov_t get = here_key.piece(here.data(), kLength),
                  put = other_key.piece(other.data(), kLength);
        Completion done(2);
        ASSERT_EQ(uct_ep_get_zcopy(ep, &get, 1, source.address(), source_key.rkey(), &done),
                  UCS_INPROGRESS);
        ASSERT_EQ(uct_ep_fence(ep, 0), UCS_OK);
        ASSERT_EQ(uct_ep_put_zcopy(ep, &put, 1, source.address(), source_key.rkey(), &done),
                  UCS_INPROGRESS);
        ASSERT_TRUE(wait_until(nodes, [&] { return done.done(); }));
        ASSERT_TRUE(here.holds(2 * round));
        ASSERT_TRUE(source.holds(2 * round + 1));
    }
}

// Each endpoint holds too few of the interface's buffers for one of its work requests to be
// signalled for its number.
TEST(Buffers, ComeBackFromManyEndpoints)
{
    constexpr unsigned kEndpoints = 16, kRounds = 3;
    Node sender{{{"TX_BUFFERS", "8"}}}, receiver;
    const std::vector<Node*> nodes{&sender, &receiver};
    std::deque<Endpoint> endpoints;
    for (unsigned i = 0; i < kEndpoints; ++i) {
        endpoints.emplace_back(sender, receiver);
        ASSERT_EQ(retry(nodes, [&] { return uct_ep_am_short(endpoints[i], 0, 0, nullptr, 0); }),
                  UCS_OK);
    }
    const std::string message = pattern(1000, 1);
    const auto sent = [&](Endpoint& ep) {
        const ssize_t length = send_bcopy(ep, 1, message);
        return length < 0 ? static_cast<ucs_status_t>(length) : UCS_OK;
    };
    for (unsigned round = 0; round < kRounds; ++round) {
        for (Endpoint& ep : endpoints) {
            ASSERT_EQ(retry(nodes, [&] { return sent(ep); }), UCS_OK) << "round " << round;
        }
    }
    EXPECT_TRUE(
        wait_until(nodes, [&] { return receiver.received_count == kEndpoints * (1 + kRounds); }));
}

// Requests that found no resources go in order, before anything later, and a flush among them too.
TEST_F(Order, PendingRequests)
{
    constexpr uint64_t kMessages = 20000;
    std::deque<Waiting> waiting;
    uint64_t sent = 0; // or waiting
    uint64_t added = 0;
    unsigned flushes = 0;
    std::deque<Completion> completions;
    auto queue = [&](std::function<ucs_status_t()> operation) {
        ASSERT_EQ(operation(), UCS_ERR_NO_RESOURCE) << "overtook what waits";
        waiting.emplace_back(operation);
        if (uct_ep_pending_add(ep, &waiting.back(), 0) == UCS_OK) {
            ++added;
        } else {
            waiting.pop_back();
        }
    };
    bool in_time = wait_until(nodes, [&] {
        for (unsigned burst = 0; burst < 100 && sent < kMessages; ++burst) {
            uint64_t value = sent;
            std::string text(200, 'x'); // more than fits into a work request: also buffers run out
            text.replace(0, 8, reinterpret_cast<char*>(&value), 8);
            auto send = [this, text, value] {
                if (value % 4 == 0) { // of which there are more than buffers
                    return uct_ep_am_short(ep, 1, value, nullptr, 0);
                }
                ssize_t length = send_bcopy(ep, 1, text);
                return length >= 0 ? UCS_OK : static_cast<ucs_status_t>(length);
            };
            size_t before = added;
            if (ucs_status_t status = send(); status == UCS_OK) {
                ++sent;
            } else if (status != UCS_ERR_NO_RESOURCE) {
                ADD_FAILURE() << ucs_status_string(status);
                return true;
            } else {
                queue(send);
                sent += added - before;
                if (added > before && value % 10 == 0) {
                    completions.emplace_back();
                    Completion* done = &completions.back();
                    queue([this, done, &flushes] {
                        ucs_status_t status = uct_ep_flush(ep, UCT_FLUSH_FLAG_LOCAL, done);
                        if (status == UCS_OK) {
                            done->count = 0;
                        }
                        flushes += status != UCS_ERR_NO_RESOURCE;
                        return status == UCS_INPROGRESS ? UCS_OK : status;
                    });
                }
            }
        }
        return receiver.received.size() >= kMessages;
    });
    ASSERT_TRUE(in_time) << receiver.received.size() << " of " << sent << " arrived";
    EXPECT_GT(added, 100u);
    EXPECT_GT(flushes, 10u);
    for (uint64_t i = 0; i < kMessages; ++i) {
        ASSERT_EQ(number(i), i);
    }
    EXPECT_EQ(flush(nodes, ep), UCS_OK);
    EXPECT_TRUE(wait_until(nodes, [&] {
        for (const Completion& done : completions) {
            if (!done.done()) {
                return false;
            }
        }
        return true;
    }));
}

// What waits goes out together, with one doorbell: short messages and buffered ones, a write among
// them, and what a short get waits for.
TEST_F(Order, PendingRequestsShareDoorbells)
{
    constexpr uint64_t kMessages = 96;
    std::vector<uint64_t> target(kMessages);
    uint64_t fetched = 0;
    Registered key(receiver, target.data(), kMessages * sizeof(uint64_t));
    std::deque<Waiting> waiting;
    uint64_t sent = 0;
    const auto send = [&](uint64_t value) {
        std::string text(200, 'x');
        text.replace(0, 8, reinterpret_cast<char*>(&value), 8);
        if (value % 3 == 1) {
            const ssize_t length = send_bcopy(ep, 1, text);
            return length >= 0 ? UCS_OK : static_cast<ucs_status_t>(length);
        }
        return uct_ep_am_short(ep, 1, value, text.data(), value % 3 * 16);
    };
    while (send(sent) == UCS_OK) {
        ++sent;
    }
    ASSERT_GE(sent, 8u);
    const uint64_t at_once = sent;
    for (; sent < kMessages; ++sent) {
        waiting.emplace_back([&, value = sent] { return send(value); });
        ASSERT_EQ(uct_ep_pending_add(ep, &waiting.back(), 0), UCS_OK);
    }
    const uint64_t mark = 7;
    waiting.emplace_back([&] {
        return uct_ep_put_short(ep, &mark, sizeof(mark), reinterpret_cast<uint64_t>(&target[5]),
                                key.rkey());
    });
    ASSERT_EQ(uct_ep_pending_add(ep, &waiting.back(), 0), UCS_OK);
    waiting.emplace_back([&] {
        return uct_ep_get_short(ep, &fetched, sizeof(fetched),
                                reinterpret_cast<uint64_t>(&target[5]), key.rkey());
    });
    ASSERT_EQ(uct_ep_pending_add(ep, &waiting.back(), 0), UCS_OK);
    const auto before = hca_counters();
    ASSERT_TRUE(wait_until(nodes, [&] { return receiver.received.size() == kMessages; }));
    ASSERT_TRUE(wait_until(nodes, [&] { return fetched != 0; }));
    const auto after = hca_counters();
    EXPECT_EQ(fetched, mark);
    for (uint64_t i = 0; i < kMessages; ++i) {
        ASSERT_EQ(number(i), i);
    }
    EXPECT_GE(after.sends - before.sends, kMessages - at_once);
    // No fewer than two at a time: a quarter of the queue returns with each completion.
    EXPECT_LE(after.doorbells - before.doorbells, (kMessages - at_once) / 2);
}

// Nor does a flush overtake what waits when a callback asks for it, just after a step of an atomic
// that takes several.
TEST_F(Order, FlushInACallbackBehindPendingRequests)
{
    alignas(8) uint32_t words[2] = {}; // the HCA reads and swaps 64 bits
    uint32_t& word = words[0];
    Registered key(receiver, words, sizeof(words));
    Endpoint back(receiver, sender);
    ASSERT_EQ(retry(nodes, [&] { return uct_ep_am_short(back, 1, 0, nullptr, 0); }), UCS_OK);
    ASSERT_TRUE(wait_until(nodes, [&] { return sender.received.size() == 1; }));
    Waiting late([&] { return uct_ep_am_short(ep, 1, 1, nullptr, 0); });
    while (uct_ep_am_short(ep, 0, 0, nullptr, 0) == UCS_OK) {
        finish_posted();
        sender.progress(); // the window closes: the receiver is not progressed
    }
    ASSERT_EQ(uct_ep_atomic32_post(ep, UCT_ATOMIC_OP_ADD, 1, reinterpret_cast<uint64_t>(&word),
                                   key.rkey()),
              UCS_OK);
    ASSERT_EQ(uct_ep_pending_add(ep, &late, 0), UCS_OK);
    Completion done;
    ucs_status_t status = UCS_OK;
    sender.on_message = [&] { status = uct_ep_flush(ep, UCT_FLUSH_FLAG_LOCAL, &done); };
    ASSERT_EQ(uct_ep_am_short(back, 1, 0, nullptr, 0), UCS_OK);
    ASSERT_TRUE(wait_until({&sender}, [&] { return sender.received.size() == 2; }));
    EXPECT_EQ(status, UCS_ERR_NO_RESOURCE);
    EXPECT_EQ(flush(nodes, ep), UCS_OK);
    EXPECT_EQ(word, 1u);
}

TEST_F(Order, PurgeGivesRequestsBack)
{
    static unsigned purged;
    purged = 0;
    std::deque<Waiting> waiting;
    Node silent;
    Endpoint far(sender, silent);
    while (uct_ep_am_short(far, 1, 0, nullptr, 0) == UCS_OK) {
    }
    for (unsigned i = 0; i < 5; ++i) {
        waiting.emplace_back([&] { return uct_ep_am_short(far, 1, 1, nullptr, 0); });
        if (uct_ep_pending_add(far, &waiting.back(), 0) != UCS_OK) {
            waiting.pop_back();
        }
    }
    uct_ep_pending_purge(
        far, [](uct_pending_req_t*, void*) { ++purged; }, nullptr);
    EXPECT_EQ(purged, waiting.size());
    EXPECT_GT(purged, 0u);
    ASSERT_EQ(retry({&sender, &silent}, [&] { return uct_ep_am_short(far, 2, 7, nullptr, 0); }),
              UCS_OK);
    EXPECT_EQ(flush({&sender, &silent}, far), UCS_OK);
}

// Many more operations than sequence numbers, most without a completion of their own.
TEST_F(Order, SequenceNumbersWrap)
{
    receiver.keep_messages = false;
    constexpr size_t kMessages = 200000;
    size_t sent = 0;
    ASSERT_TRUE(wait_until(nodes, [&] {
        while (sent < kMessages && uct_ep_am_short(ep, 1, sent, nullptr, 0) == UCS_OK) {
            ++sent;
        }
        return receiver.received_count == kMessages + 1;
    }));
    EXPECT_EQ(flush(nodes, ep), UCS_OK);
}

// UCT's short get waits for its data while other completions, and messages, come in between; also
// when it is called from a callback.
TEST_F(Order, ShortGetAmongOthers)
{
    uint64_t source = 0x1122334455667788;
    Registered key(receiver, &source, sizeof(source));
    Endpoint back(receiver, sender);
    unsigned gets = 0;
    sender.on_message = [&] {
        uint64_t got = 0;
        if (uct_ep_get_short(ep, &got, sizeof(got), reinterpret_cast<uint64_t>(&source),
                             key.rkey()) == UCS_OK) {
            ++gets;
            EXPECT_EQ(got, source);
        }
    };
    constexpr uint64_t kMessages = 5000;
    std::atomic<bool> over{false};
    bool all_arrived = false;
    std::thread peer([&] { // on its own, so that it sends while the short get waits
        uint64_t in = 0;
        all_arrived = wait_until({&receiver}, [&] {
            while (in < kMessages && uct_ep_am_short(back, 2, in, nullptr, 0) == UCS_OK) {
                ++in;
            }
            return receiver.received.size() == kMessages && over;
        });
    });
    uint64_t out = 0;
    bool all_got = wait_until({&sender}, [&] {
        while (out < kMessages && uct_ep_am_short(ep, 1, out, nullptr, 0) == UCS_OK) {
            ++out;
        }
        return out == kMessages && sender.received.size() == kMessages;
    });
    over = true;
    peer.join();
    ASSERT_TRUE(all_got) << sender.received.size();
    ASSERT_TRUE(all_arrived) << receiver.received.size();
    EXPECT_GT(gets, 0u);
    for (uint64_t i = 0; i < kMessages; ++i) {
        ASSERT_EQ(number(i), i);
        ASSERT_EQ(*reinterpret_cast<const uint64_t*>(sender.received[i].data.data()), i);
    }
    EXPECT_EQ(flush(nodes, ep), UCS_OK);
}

// What it waits for is its own: the failure of another endpoint is reported there.
TEST_F(Order, ShortGetBesideAFailure)
{
    uint64_t source = 0x1122334455667788;
    Registered key(receiver, &source, sizeof(source));
    Endpoint other(sender, receiver);
    ASSERT_EQ(retry(nodes, [&] { return uct_ep_am_short(other, 0, 0, nullptr, 0); }), UCS_OK);
    ASSERT_EQ(flush(nodes, other), UCS_OK);
    const uint64_t completions = hca_counters().completions;
    ASSERT_EQ(uct_ep_put_short(other, &source, 8, reinterpret_cast<uint64_t>(&source) + (1 << 30),
                               key.rkey()),
              UCS_OK);
    for (int i = 0; i < 20 && hca_counters().completions <= completions + static_cast<uint64_t>(i);
         ++i) {
        uint64_t got = 0;
        ASSERT_EQ(uct_ep_get_short(ep, &got, sizeof(got), reinterpret_cast<uint64_t>(&source),
                                   key.rkey()),
                  UCS_OK);
        ASSERT_EQ(got, source);
        usleep(10000);
    }
    if (!on_softmlx5()) { // which counts what nobody has polled
        EXPECT_GT(hca_counters().completions, completions + 1) << "that of the put came, too";
    }
    EXPECT_TRUE(wait_until(nodes, [&] { return !sender.failures.empty(); }));
}

// What a short get puts aside comes before what arrives behind it.
TEST_F(Order, MessagesAroundShortGets)
{
    uint64_t source = 1;
    Registered key(receiver, &source, sizeof(source));
    Endpoint back(receiver, sender);
    constexpr uint64_t kMessages = 1001;
    uint64_t sent = 0;
    auto send_one = [&] {
        if (sent < kMessages && uct_ep_am_short(back, 2, sent, nullptr, 0) == UCS_OK) {
            ++sent;
        }
    };
    ASSERT_TRUE(wait_until(nodes, [&] {
        send_one();
        return sent == 1;
    }));
    sender.on_message = [&] {
        send_one();
        uint64_t got;
        (void)uct_ep_get_short(ep, &got, sizeof(got), reinterpret_cast<uint64_t>(&source),
                               key.rkey());
        send_one();
    };
    ASSERT_TRUE(wait_until(nodes, [&] {
        if (sender.received.size() == sent) {
            send_one(); // neither had room
        }
        return sender.received.size() == kMessages;
    }));
    for (uint64_t i = 0; i < kMessages; ++i) {
        ASSERT_EQ(*reinterpret_cast<const uint64_t*>(sender.received[i].data.data()), i);
    }
}

// Nobody goes to sleep on a message that has come.
TEST_F(Order, ArmedBehindAMessage)
{
    ASSERT_TRUE(wait_until({&receiver}, [&] {
        return uct_iface_event_arm(receiver.iface(), UCT_EVENT_RECV) == UCS_OK;
    }));
    ASSERT_EQ(uct_ep_am_short(ep, 1, 1, nullptr, 0), UCS_OK);
    ASSERT_EQ(flush({&sender}, ep), UCS_OK);
    finish_posted();
    EXPECT_EQ(uct_iface_event_arm(receiver.iface(), UCT_EVENT_RECV), UCS_ERR_BUSY);
    EXPECT_TRUE(wait_until(nodes, [&] { return receiver.received.size() == 1; }));
}

// A sleeper is woken for every message.
TEST_F(Order, NoWakeupIsLost)
{
    constexpr unsigned kRounds = 2000;
    std::atomic<unsigned> arrived{0};
    int fd;
    ASSERT_EQ(uct_iface_event_fd_get(receiver.iface(), &fd), UCS_OK);
    receiver.on_message = [&] { ++arrived; };
    unsigned timeouts = 0;
    std::thread sleeper([&] {
        while (arrived < kRounds && timeouts == 0) {
            while (receiver.progress() != 0) {
            }
            ucs_status_t status =
                uct_iface_event_arm(receiver.iface(), UCT_EVENT_RECV | UCT_EVENT_SEND_COMP);
            if (status == UCS_ERR_BUSY || arrived >= kRounds) {
                continue;
            }
            pollfd waited{fd, POLLIN, 0};
            timeouts += poll(&waited, 1, 30000) == 0;
        }
    });
    for (unsigned round = 0; round < kRounds && timeouts == 0; ++round) {
        retry({&sender}, [&] { return uct_ep_am_short(ep, 1, round, nullptr, 0); });
        auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(40);
        while (arrived <= round && std::chrono::steady_clock::now() < deadline) {
            sender.progress();
        }
        if (round % 64 == 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(2)); // let it sleep for sure
        }
    }
    sleeper.join();
    EXPECT_EQ(timeouts, 0u);
    EXPECT_EQ(arrived, kRounds);
}

} // namespace
} // namespace rc_test
