// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// softhca between processes: every transfer, sleepers, dead and departing peers, leftovers.
#include "softhca_fixture.hpp"

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstring>

#include <glob.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;

unsigned long tracer_allowed = 0;

} // namespace

// Sees what softhca asks of the kernel.
extern "C" __attribute__((visibility("default"))) int prctl(int option, ...) noexcept
{
    va_list list;
    va_start(list, option);
    unsigned long arguments[4];
    for (unsigned long& argument : arguments) {
        argument = va_arg(list, unsigned long);
    }
    va_end(list);
    if (option == PR_SET_PTRACER) {
        tracer_allowed = arguments[0];
    }
    return static_cast<int>(
        syscall(SYS_prctl, option, arguments[0], arguments[1], arguments[2], arguments[3]));
}

namespace {

// Sleeps until the channel has an event; false after ten seconds.
bool sleep_on(ibv_comp_channel* channel)
{
    pollfd descriptor = {channel->fd, POLLIN, 0};
    ibv_cq* cq;
    void* context;
    if (poll(&descriptor, 1, 10000) != 1 || ibv_get_cq_event(channel, &cq, &context) != 0) {
        return false;
    }
    ibv_ack_cq_events(cq, 1);
    return true;
}

TEST(Processes, SendsOfEverySize)
{
    const std::uint32_t sizes[] = {0, 8, 88, 89, 4096, 8256, 8257, 1 << 20, 33 << 20};
    Options options;
    options.buffer_size = (33 << 20) + 16;
    Child child([&](Child::Link& link) {
        Device device;
        Endpoint b(device, options);
        meet(link, b);
        for (std::uint32_t size : sizes) {
            std::memset(b.buffer.data(), 0, size + 1);
            ASSERT_EQ(b.post_receive(0, size + 1), 0);
            const ibv_wc wc = b.next();
            EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
            EXPECT_EQ(wc.byte_len, size);
            EXPECT_TRUE(is_filled(b.buffer.data(), size, size));
            EXPECT_EQ(b.buffer[size], 0);
        }
    });
    Device device;
    Endpoint a(device, options);
    meet(child.link(), a);
    for (std::uint32_t size : sizes) {
        fill(a.buffer.data(), size, size);
        ASSERT_EQ(a.post_send(0, size), 0);
        EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    }
    child.join();
}

// UCX's transports send through buffers of this size. A system call for a full one was 0.5 us more,
// for each fragment of a message, which UCP's choice of protocols was then measured with.
TEST(Processes, FragmentOfUcxTakesNoSystemCall)
{
    constexpr std::uint32_t kSize = 8256;
    Child child([&](Child::Link& link) {
        Device device;
        Endpoint b(device);
        meet(link, b);
        const auto before = counters();
        ASSERT_EQ(b.post_receive(0, kSize), 0);
        link.put('r');
        EXPECT_EQ(b.next().byte_len, kSize);
        EXPECT_EQ(counters().system_calls, before.system_calls);
    });
    Device device;
    Endpoint a(device);
    meet(child.link(), a);
    child.link().get<char>();
    const auto before = counters();
    ASSERT_EQ(a.post_send(0, kSize), 0);
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(counters().system_calls, before.system_calls);
    child.join();
}

TEST(Processes, OneSidedOperationsNeedNoHelpOfTheResponder)
{
    Options options;
    options.buffer_size = (33 << 20) + 64;
    Child child([&](Child::Link& link) {
        Device device;
        Endpoint b(device, options);
        meet(link, b);
        link.get<char>(); // no verbs call meanwhile
        EXPECT_TRUE(is_filled(b.buffer.data() + 64, 33 << 20, 2));
        EXPECT_EQ(*reinterpret_cast<std::uint64_t*>(b.buffer.data()), 100u);
    });
    Device device;
    Endpoint a(device, options);
    const Address peer = meet(child.link(), a);
    for (std::uint32_t size : {8u, 64u, 4096u, 9000u, 33u << 20}) {
        for (unsigned seed = 1; seed <= 2; ++seed) {
            fill(a.buffer.data(), size, seed);
            ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE, 0, size, peer.buffer + 64, peer.rkey), 0);
            ASSERT_EQ(a.next().status, IBV_WC_SUCCESS);
        }
        std::memset(a.buffer.data(), 0, size);
        ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_READ, 0, size, peer.buffer + 64, peer.rkey), 0);
        ASSERT_EQ(a.next().status, IBV_WC_SUCCESS);
        EXPECT_TRUE(is_filled(a.buffer.data(), size, 2));
    }
    for (unsigned i = 0; i < 100; ++i) {
        ASSERT_EQ(a.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, peer.buffer, peer.rkey, 1), 0);
        ASSERT_EQ(a.next().status, IBV_WC_SUCCESS);
        EXPECT_EQ(*reinterpret_cast<std::uint64_t*>(a.buffer.data()), i);
    }
    child.link().put('d');
    child.join();
}

// A responder that only looks at its memory sees a small WRITE, even if the requester makes no
// verbs call after posting it.
TEST(Processes, SmallWritesLandWithoutPolling)
{
    Child child([](Child::Link& link) {
        Device device;
        Endpoint b(device);
        meet(link, b);
        auto* word = reinterpret_cast<volatile std::uint64_t*>(b.buffer.data());
        for (std::uint64_t i = 1; i <= 20; ++i) {
            const auto end = Clock::now() + std::chrono::seconds(5);
            while (*word != i && Clock::now() < end) {
                sched_yield();
            }
            ASSERT_EQ(*word, i);
            link.put('s');
        }
    });
    Device device;
    Endpoint a(device);
    const Address peer = meet(child.link(), a);
    for (std::uint64_t i = 1; i <= 20; ++i) {
        std::memcpy(a.buffer.data(), &i, sizeof i);
        ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE, 0, 8, peer.buffer, peer.rkey, i,
                              i % 2 == 0 ? unsigned{IBV_SEND_SIGNALED} : 0u),
                  0);
        child.link().get<char>();
    }
    for (std::uint64_t i = 2; i <= 20; i += 2) {
        EXPECT_EQ(a.next().wr_id, i);
    }
    child.join();
}

// What is posted in order is seen in order, whatever ways the operations take.
TEST(Processes, OperationsOfAQueuePairAreOrdered)
{
    constexpr unsigned kRounds = 300;
    Options options;
    options.queue_depth = 1024;
    Child child([&](Child::Link& link) {
        Device device;
        Endpoint b(device, options);
        meet(link, b);
        for (unsigned round = 0; round < kRounds; ++round) {
            ASSERT_EQ(b.post_receive(500000, 20000, round), 0);
        }
        for (unsigned round = 0; round < kRounds; ++round) {
            ASSERT_EQ(b.next().status, IBV_WC_SUCCESS);
            // Everything written before the message was sent is there, and nothing later.
            std::uint64_t word;
            std::memcpy(&word, b.buffer.data(), sizeof word);
            ASSERT_EQ(word, 3 * round + 2);
            std::memcpy(&word, b.buffer.data() + 300000 - 8, sizeof word);
            ASSERT_EQ(word, round);
            link.put('n');
        }
    });
    Device device;
    Endpoint a(device, options);
    const Address peer = meet(child.link(), a);
    for (unsigned round = 0; round < kRounds; ++round) {
        for (std::uint64_t step = 0; step < 2; ++step) {
            const std::uint64_t value = 3 * round + step;
            std::memcpy(a.buffer.data() + step * 8, &value, sizeof value);
            ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE, step * 8, 8, peer.buffer, peer.rkey, 0, 0), 0);
        }
        const std::uint64_t value = round;
        std::memcpy(a.buffer.data() + 300000 - 8, &value, sizeof value);
        ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE, 1000, 300000 - 1000, peer.buffer + 1000, peer.rkey,
                              0, 0),
                  0);
        const std::uint64_t last = 3 * round + 2;
        std::memcpy(a.buffer.data() + 16, &last, sizeof last);
        ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE, 16, 8, peer.buffer, peer.rkey, 0, 0), 0);
        // A READ sees the WRITEs before it.
        ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_READ, 600000, 8, peer.buffer, peer.rkey, 1, 0), 0);
        ASSERT_EQ(a.post_send(0, round % 2 == 0 ? 8 : 20000, 2), 0);
        const ibv_wc wc = a.next();
        ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
        ASSERT_EQ(wc.wr_id, 2u);
        std::uint64_t seen;
        std::memcpy(&seen, a.buffer.data() + 600000, sizeof seen);
        ASSERT_EQ(seen, last);
        child.link().get<char>();
    }
    child.join();
}

// Small WRITEs may wait in the responder's completion queue; what comes after them does not pass.
TEST(Processes, ReadsAndAtomicsSeeTheWritesBefore)
{
    Child child([](Child::Link& link) {
        Device device;
        Endpoint b(device), c(device);
        meet(link, b);
        meet(link, c);
        link.get<char>(); // polls nothing
    });
    Device device;
    Endpoint a(device), d(device);
    const Address first = meet(child.link(), a), second = meet(child.link(), d);
    const std::uint64_t value = 1000;
    std::uint64_t seen;
    std::memcpy(a.buffer.data(), &value, sizeof value);
    ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE, 0, 8, first.buffer, first.rkey, 0, 0), 0);
    ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_READ, 8, 8, first.buffer, first.rkey), 0);
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    std::memcpy(&seen, a.buffer.data() + 8, sizeof seen);
    EXPECT_EQ(seen, value);
    std::memcpy(d.buffer.data(), &value, sizeof value);
    ASSERT_EQ(d.post_rdma(IBV_WR_RDMA_WRITE, 0, 8, second.buffer, second.rkey, 0, 0), 0);
    ASSERT_EQ(d.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, second.buffer, second.rkey, 1), 0);
    EXPECT_EQ(d.next().status, IBV_WC_SUCCESS);
    std::memcpy(&seen, d.buffer.data() + 8, sizeof seen);
    EXPECT_EQ(seen, value);
    child.link().put('d');
    child.join();
}

TEST(Processes, FourToOneOverASharedReceiveQueue)
{
    constexpr unsigned kSenders = 4, kMessages = 2000;
    std::vector<std::unique_ptr<Child>> children;
    for (unsigned sender = 0; sender < kSenders; ++sender) {
        children.push_back(std::make_unique<Child>([sender](Child::Link& link) {
            Device device;
            Endpoint a(device);
            meet(link, a);
            for (unsigned i = 0; i < kMessages; ++i) {
                const std::uint32_t size = i % 7 == 0 ? 9000 : 16 + i % 5000;
                fill(a.buffer.data(), size, sender + i);
                std::memcpy(a.buffer.data(), &i, sizeof i);
                ASSERT_EQ(a.post_send(0, size), 0);
                ASSERT_EQ(a.next().status, IBV_WC_SUCCESS);
            }
            link.get<char>();
        }));
    }
    Device device;
    ibv_srq_init_attr init = {};
    init.attr = {32, 1, 0};
    ibv_srq* srq = ibv_create_srq(device.pd, &init);
    ASSERT_NE(srq, nullptr);
    Options options;
    options.srq = srq;
    std::vector<unsigned char> memory(32 * 16384);
    ibv_mr* mr = ibv_reg_mr(device.pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
    const auto post = [&](std::uint64_t slot) {
        ibv_sge list = {reinterpret_cast<std::uint64_t>(memory.data()) + slot * 16384, 16384,
                        mr->lkey};
        ibv_recv_wr wr = {slot, nullptr, &list, 1};
        ibv_recv_wr* bad;
        return ibv_post_srq_recv(srq, &wr, &bad);
    };
    {
        std::vector<std::unique_ptr<Endpoint>> endpoints;
        for (auto& child : children) {
            endpoints.push_back(std::make_unique<Endpoint>(device, options));
            meet(child->link(), *endpoints.back());
        }
        for (std::uint64_t slot = 0; slot < 32; ++slot) {
            ASSERT_EQ(post(slot), 0);
        }
        EXPECT_EQ(post(0), ENOMEM);
        std::vector<unsigned> received(kSenders, 0);
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
        for (unsigned total = 0; total < kSenders * kMessages;) {
            ASSERT_LT(std::chrono::steady_clock::now(), deadline) << total << " messages came";
            for (unsigned sender = 0; sender < kSenders; ++sender) {
                ibv_wc wc;
                if (ibv_poll_cq(endpoints[sender]->cq, 1, &wc) == 0) {
                    continue;
                }
                ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
                const unsigned char* data = memory.data() + wc.wr_id * 16384;
                const unsigned i = received[sender]++;
                ASSERT_EQ(wc.byte_len, i % 7 == 0 ? 9000 : 16 + i % 5000);
                unsigned number;
                std::memcpy(&number, data, sizeof number);
                ASSERT_EQ(number, i);
                std::vector<unsigned char> expected(wc.byte_len);
                fill(expected.data(), expected.size(), sender + i);
                ASSERT_EQ(std::memcmp(data + 4, expected.data() + 4, wc.byte_len - 4), 0);
                ASSERT_EQ(post(wc.wr_id), 0);
                ++total;
            }
        }
        for (auto& child : children) {
            child->link().put('d');
            child->join();
        }
    }
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST(Processes, SleepingReceiverIsWoken)
{
    constexpr unsigned kMessages = 200;
    Child child([](Child::Link& link) {
        Device device;
        Endpoint a(device);
        meet(link, a);
        for (unsigned i = 0; i < kMessages; ++i) {
            ASSERT_EQ(a.post_send(0, i % 2 == 0 ? 8 : 100000), 0);
            ASSERT_EQ(a.next().status, IBV_WC_SUCCESS);
            link.get<char>();
        }
    });
    Device device;
    ibv_comp_channel* channel = ibv_create_comp_channel(device.context);
    {
        Options options;
        options.channel = channel;
        Endpoint b(device, options);
        ASSERT_EQ(ibv_req_notify_cq(b.cq, 0), 0);
        ASSERT_EQ(b.post_receive(0, 100000), 0);
        meet(child.link(), b);
        for (unsigned i = 0; i < kMessages; ++i) {
            ASSERT_TRUE(sleep_on(channel));
            ASSERT_EQ(ibv_req_notify_cq(b.cq, 0), 0);
            ASSERT_EQ(b.next().status, IBV_WC_SUCCESS);
            ASSERT_EQ(b.post_receive(0, 100000), 0);
            // An event for the entry just polled may be there: it was not when we armed.
            pollfd descriptor = {channel->fd, POLLIN, 0};
            while (poll(&descriptor, 1, 0) == 1) {
                ASSERT_TRUE(sleep_on(channel));
                ASSERT_EQ(ibv_req_notify_cq(b.cq, 0), 0);
            }
            child.link().put('n');
        }
        child.join();
    }
    EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

// The requester sleeps while its sends wait for receive WQEs; the receiver serves them.
TEST(Processes, SleepingRequesterIsServed)
{
    constexpr unsigned kMessages = 50;
    Child child([](Child::Link& link) {
        Device device;
        ibv_comp_channel* channel = ibv_create_comp_channel(device.context);
        {
            Options options;
            options.channel = channel;
            Endpoint a(device, options);
            meet(link, a);
            ASSERT_EQ(ibv_req_notify_cq(a.cq, 0), 0);
            for (unsigned i = 0; i < kMessages; ++i) {
                fill(a.buffer.data() + i * 10000, 10000, i);
                ASSERT_EQ(a.post_send(i * 10000, i % 2 == 0 ? 10000 : 50, i,
                                      i + 1 == kMessages ? unsigned{IBV_SEND_SIGNALED} : 0u),
                          0);
            }
            link.put('p'); // posted
            ASSERT_TRUE(sleep_on(channel));
            EXPECT_EQ(a.next().wr_id, kMessages - 1);
            link.get<char>();
        }
        EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
    });
    Device device;
    Endpoint b(device);
    meet(child.link(), b);
    child.link().get<char>();
    for (unsigned i = 0; i < kMessages; ++i) {
        ASSERT_EQ(b.post_receive(i * 10000, 10000), 0);
        const ibv_wc wc = b.next();
        ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
        ASSERT_EQ(wc.byte_len, i % 2 == 0 ? 10000u : 50u);
        ASSERT_TRUE(is_filled(b.buffer.data() + i * 10000, wc.byte_len, i));
    }
    child.link().put('d');
    child.join();
}

// A peer that dies, even if its pid lives on: what is outstanding and what is posted afterwards
// fails, after the retries.
TEST(Processes, KilledPeer)
{
    for (bool waiting : {true, false}) {
        Child child([](Child::Link& link) {
            Device device;
            Endpoint b(device);
            ASSERT_EQ(b.post_receive(0, 100), 0);
            meet(link, b);
            link.get<char>();
        });
        Device device;
        ibv_comp_channel* channel = ibv_create_comp_channel(device.context);
        {
            Options options;
            options.channel = channel;
            Endpoint a(device, options);
            const Address peer = meet(child.link(), a);
            ASSERT_EQ(a.post_send(0, 8, 1), 0);
            EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
            if (waiting) {
                ASSERT_EQ(a.post_send(0, 8, 2), 0); // for a receive that never comes
            }
            ASSERT_EQ(ibv_req_notify_cq(a.cq, 0), 0);
            const auto start = Clock::now();
            child.leave_zombie();
            if (!waiting) {
                ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE, 0, 8, peer.buffer, peer.rkey, 2), 0);
            }
            ASSERT_EQ(a.post_send(0, 8, 3), 0);
            ASSERT_TRUE(sleep_on(channel)); // the agent sees to it
            const ibv_wc wc = a.next();
            EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
            EXPECT_EQ(wc.wr_id, 2u);
            EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(16 * 4));
            EXPECT_EQ(a.next().status, IBV_WC_WR_FLUSH_ERR);
            EXPECT_EQ(a.state(), IBV_QPS_ERR);
        }
        EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
    }
}

// Atomics of several processes and of the responder's own exclude each other.
TEST(Processes, AtomicsOfManyRequestersAddUp)
{
    constexpr unsigned kRequesters = 3, kEach = 1000;
    const auto count = [](Endpoint& a, const Address& peer) {
        for (unsigned i = 0; i < kEach; ++i) {
            ASSERT_EQ(a.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, peer.buffer, peer.rkey, 1), 0);
            ASSERT_EQ(a.next().status, IBV_WC_SUCCESS);
        }
    };
    std::vector<std::unique_ptr<Child>> children;
    for (unsigned i = 0; i < kRequesters; ++i) {
        children.push_back(std::make_unique<Child>([&](Child::Link& link) {
            Device device;
            Endpoint a(device);
            meet(link, a);
            const auto target = link.get<Address>();
            count(a, target);
            link.put('d');
            link.get<char>();
        }));
    }
    Device device;
    Endpoint own(device), self(device);
    connect(own, self);
    std::vector<std::unique_ptr<Endpoint>> endpoints;
    for (auto& child : children) {
        endpoints.push_back(std::make_unique<Endpoint>(device));
        meet(child->link(), *endpoints.back());
        child->link().put(self.address());
    }
    count(own, self.address());
    for (auto& child : children) {
        child->link().get<char>();
        child->link().put('d');
        child->join();
    }
    std::uint64_t sum;
    std::memcpy(&sum, self.buffer.data(), sizeof sum);
    EXPECT_EQ(sum, std::uint64_t{kEach} * (kRequesters + 1));
}

// Where Yama lets processes of one user only trace their descendants, they move each other's data
// all the same.
TEST(Processes, PeersMayMoveDataUnderYama)
{
    Device device;
    EXPECT_EQ(tracer_allowed, PR_SET_PTRACER_ANY);
}

// Killed at any moment of heavy traffic, a peer takes nobody with it.
TEST(Processes, PeerKilledInTheMiddle)
{
    for (unsigned round = 0; round < 10; ++round) {
        Child child([](Child::Link& link) {
            Device device;
            Endpoint b(device);
            const Address peer = meet(link, b);
            link.put('s');
            while (true) {
                b.post_receive(0, 20000);
                b.post_send(50000, 8, 0, 0);
                b.post_rdma(IBV_WR_RDMA_WRITE, 50000, 64, peer.buffer, peer.rkey);
                ibv_wc wc[4];
                ibv_poll_cq(b.cq, 4, wc);
            }
        });
        Device device;
        Endpoint a(device);
        const Address peer = meet(child.link(), a);
        child.link().get<char>();
        const auto end = Clock::now() + std::chrono::milliseconds(5 + 7 * round);
        bool killed = false, failed = false;
        const auto limit = Clock::now() + std::chrono::seconds(10);
        while (!failed && Clock::now() < limit) {
            a.post_receive(0, 20000);
            a.post_send(50000, round % 2 == 0 ? 8 : 20000);
            a.post_rdma(IBV_WR_RDMA_WRITE, 50000, 64, peer.buffer, peer.rkey);
            ibv_wc wc[4];
            const int count = ibv_poll_cq(a.cq, 4, wc);
            for (int i = 0; i < count; ++i) {
                failed = failed || wc[i].status != IBV_WC_SUCCESS;
            }
            if (!killed && Clock::now() > end) {
                child.kill();
                killed = true;
            }
        }
        EXPECT_TRUE(failed);
        EXPECT_TRUE(killed);
        // The device goes on working.
        Endpoint c(device), d(device);
        connect(c, d);
        ASSERT_EQ(d.post_receive(0, 100), 0);
        ASSERT_EQ(c.post_send(0, 8), 0);
        EXPECT_EQ(d.next().status, IBV_WC_SUCCESS);
    }
}

// A process that dies while it works on its peer's queues: the locks it holds are taken over.
TEST(Processes, PeerDiesHoldingLocks)
{
    Child survivor([](Child::Link& link) {
        Device device;
        Endpoint b(device);
        ASSERT_EQ(b.post_receive(0, 100, 1), 0);
        ASSERT_EQ(b.post_receive(0, 100, 2), 0);
        meet(link, b);
        link.get<char>();
        ASSERT_EQ(b.post_receive(0, 100, 3), 0);  // the receive queue's lock
        EXPECT_EQ(ibv_req_notify_cq(b.cq, 0), 0); // the completion queue's
        Endpoint c(device), d(device);
        connect(c, d);
        ASSERT_EQ(d.post_receive(0, 100), 0);
        ASSERT_EQ(c.post_send(0, 8), 0);
        EXPECT_EQ(d.next().status, IBV_WC_SUCCESS);
    });
    Child victim([](Child::Link& link) {
        Device device;
        Endpoint a(device);
        meet(link, a);
        void* page =
            mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ibv_mr* mr = ibv_reg_mr(device.pd, page, 4096, 0);
        munmap(page, 4096);
        ibv_sge list = {reinterpret_cast<std::uint64_t>(page), 8, mr->lkey};
        ibv_send_wr wr = {};
        wr.sg_list = &list;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_SEND;
        a.post(wr); // copies under the locks of the peer's queues, and cannot
    });
    // Each is given the other's address.
    const auto one = survivor.link().get<Address>();
    const auto other = victim.link().get<Address>();
    survivor.link().put(other);
    victim.link().put(one);
    survivor.link().get<char>();
    victim.link().get<char>();
    survivor.link().put('r');
    victim.link().put('r');
    victim.await_death();
    survivor.link().put('d');
    survivor.join();
}

// A number is not soon that of another queue pair.
TEST(Processes, QueuePairNumbersComeBackLate)
{
    Device device;
    ibv_cq* cq = ibv_create_cq(device.context, 1, nullptr, nullptr, 0);
    ibv_qp_init_attr init = {};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_RC;
    const auto next_number = [&] {
        ibv_qp* qp = ibv_create_qp(device.pd, &init);
        const std::uint32_t number = qp == nullptr ? 0 : qp->qp_num;
        EXPECT_EQ(qp == nullptr ? ENOMEM : ibv_destroy_qp(qp), 0);
        return number;
    };
    const std::uint32_t first = next_number();
    std::uint32_t number = next_number();
    for (unsigned i = 0; i < 0x10000 && (number & 0xffff) != (first & 0xffff); ++i) {
        number = next_number();
    }
    EXPECT_NE(number, first);
    EXPECT_EQ(number & 0xffff, first & 0xffff); // all have been in use
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST(Processes, PeerThatDestroysItsQueuePair)
{
    Child child([](Child::Link& link) {
        Device device;
        {
            Endpoint b(device);
            meet(link, b);
            link.get<char>();
        }
        link.put('d');
        link.get<char>();
    });
    Device device;
    Endpoint a(device);
    const Address peer = meet(child.link(), a);
    child.link().put('d');
    child.link().get<char>();
    ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE, 0, 8, peer.buffer, peer.rkey), 0);
    EXPECT_EQ(a.next().status, IBV_WC_RETRY_EXC_ERR);
    child.link().put('d');
    child.join();
}

// Regions of a process that is gone, or of its memory that is released, are out of reach.
TEST(Processes, DeregisteredMemoryIsOutOfReach)
{
    Child child([](Child::Link& link) {
        Device device;
        Endpoint b(device);
        std::vector<unsigned char> memory(8192, 0x55);
        ibv_mr* mr = ibv_reg_mr(device.pd, memory.data(), memory.size(), kAllAccess);
        const Address mine = {0, 0, {}, reinterpret_cast<std::uint64_t>(memory.data()), mr->rkey};
        meet(link, b);
        link.put(mine);
        link.get<char>();
        EXPECT_EQ(memory[0], 1);
        EXPECT_EQ(ibv_dereg_mr(mr), 0);
        memory[0] = 0x55;
        ibv_mr* next = ibv_reg_mr(device.pd, memory.data(), memory.size(), kAllAccess);
        link.put('d');
        link.get<char>();
        EXPECT_EQ(memory[0], 0x55);
        EXPECT_EQ(ibv_dereg_mr(next), 0);
    });
    Device device;
    Endpoint a(device);
    meet(child.link(), a);
    const auto target = child.link().get<Address>();
    a.buffer[0] = 1;
    ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE, 0, 1, target.buffer, target.rkey), 0);
    ASSERT_EQ(a.next().status, IBV_WC_SUCCESS);
    child.link().put('d');
    child.link().get<char>();
    ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE, 0, 1, target.buffer, target.rkey), 0);
    EXPECT_EQ(a.next().status, IBV_WC_REM_ACCESS_ERR);
    child.link().put('d');
    child.join();
}

// What killed processes leave in the fabric's tables is gone with the next open, and QP numbers and
// keys of theirs never mean somebody else's queue pairs and regions.
TEST(Processes, LeftoversAreSwept)
{
    std::vector<std::uint32_t> numbers, keys;
    for (unsigned round = 0; round < 300; ++round) { // more than the fabric has room for
        Child child([](Child::Link& link) {
            Device device;
            Endpoint b(device);
            link.put(b.qp->qp_num);
            link.put(b.mr->rkey);
            pause();
        });
        numbers.push_back(child.link().get<std::uint32_t>());
        keys.push_back(child.link().get<std::uint32_t>());
        child.kill();
    }
    for (std::vector<std::uint32_t>* names : {&numbers, &keys}) {
        std::sort(names->begin(), names->end());
        EXPECT_EQ(std::unique(names->begin(), names->end()), names->end());
    }
    Device device; // holds the fabric's file
    const std::string pattern =
        "/dev/shm/softhca-" + std::to_string(geteuid()) + "-" + getenv("SOFTHCA_FABRIC") + ".*";
    glob_t found;
    ASSERT_EQ(glob(pattern.c_str(), 0, nullptr, &found), 0);
    EXPECT_EQ(found.gl_pathc, 1u); // and no other file
    struct stat status;
    ASSERT_EQ(stat(found.gl_pathv[0], &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    globfree(&found);
}

TEST(Processes, ChildrenInheritNothing)
{
    Device device;
    Endpoint a(device), b(device);
    connect(a, b);
    Child child([&](Child::Link& link) {
        // The parent's objects are no objects of this process.
        EXPECT_EQ(ibv_alloc_pd(device.context), nullptr);
        EXPECT_EQ(ibv_reg_mr(device.pd, a.buffer.data(), 10, 0), nullptr);
        EXPECT_EQ(a.to_error(), EINVAL);
        EXPECT_EQ(ibv_destroy_qp(a.qp), 0); // forgets it, as the parent's must stay
        EXPECT_EQ(counters().registrations, 0u);
        Device own;
        Endpoint c(own);
        meet(link, c);
        ASSERT_EQ(c.post_send(0, 8), 0);
        EXPECT_EQ(c.next().status, IBV_WC_SUCCESS);
    });
    Endpoint d(device);
    ASSERT_EQ(d.post_receive(0, 8), 0);
    meet(child.link(), d);
    EXPECT_EQ(d.next().status, IBV_WC_SUCCESS);
    child.join();
    ASSERT_EQ(b.post_receive(0, 100), 0);
    ASSERT_EQ(a.post_send(0, 8), 0);
    EXPECT_EQ(b.next().status, IBV_WC_SUCCESS);
}

TEST(Processes, FabricsDoNotSeeEachOther)
{
    Device device;
    Endpoint a(device);
    a.options.retry_count = 0;
    const std::string setting = "SOFTHCA_TEST_PEER=" + std::to_string(a.qp->qp_num);
    EXPECT_TRUE(run_tests("DISABLED_Foreign.CannotReach", {"SOFTHCA_FABRIC=foreign", setting}));
}

TEST(DISABLED_Foreign, CannotReach)
{
    Device device;
    Options options;
    options.retry_count = 0;
    Endpoint a(device, options);
    Address peer = a.address();
    peer.qp_number = static_cast<std::uint32_t>(std::stoul(getenv("SOFTHCA_TEST_PEER")));
    // The number may be that of the own QP here, which is not connected to itself.
    if (peer.qp_number == a.qp->qp_num) {
        peer.qp_number += 1;
    }
    a.connect(peer);
    ASSERT_EQ(a.post_send(0, 8), 0);
    EXPECT_EQ(a.next().status, IBV_WC_RETRY_EXC_ERR);
}

} // namespace
