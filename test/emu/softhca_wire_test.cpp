// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The modelled wire of softhca: nothing is complete before its time. Times are long, and only ever
// too short is wrong, so that a busy machine does not matter. Where an order shows only to who
// looks in time, it is tried again.
#include "softhca_fixture.hpp"

#include <chrono>
#include <cstring>
#include <optional>

#include <poll.h>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLatency{40};
constexpr char kLatencySetting[] = "SOFTHCA_LATENCY_US=40000";
// A megabyte in 80 ms.
constexpr char kBandwidthSetting[] = "SOFTHCA_BANDWIDTH_GBPS=0.1";
constexpr std::uint32_t kMegabyte = 1'000'000;
constexpr milliseconds kMegabyteTime{80};

class DISABLED_Wire : public ::testing::Test {
  protected:
    Clock::duration elapsed() const { return Clock::now() - start; }

    Device device;
    Clock::time_point start = Clock::now();
};

TEST_F(DISABLED_Wire, SendsTakeALatency)
{
    Endpoint a(device), b(device);
    connect(a, b);
    for (std::uint32_t size : {8u, 5000u, 100000u}) {
        fill(a.buffer.data(), size, size);
        ASSERT_EQ(b.post_receive(0, size), 0);
        start = Clock::now();
        ASSERT_EQ(a.post_send(0, size), 0);
        EXPECT_EQ(b.next().byte_len, size);
        EXPECT_GE(elapsed(), kLatency);
        EXPECT_TRUE(is_filled(b.buffer.data(), size, size));
        EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    }
    start = Clock::now();
    const Address target = b.address();
    ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE, 0, 8, target.buffer, target.rkey), 0);
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    EXPECT_GE(elapsed(), kLatency);
}

TEST_F(DISABLED_Wire, ReadsAndAtomicsTakeARoundTrip)
{
    Endpoint a(device), b(device);
    connect(a, b);
    const Address target = b.address();
    ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_READ, 0, 8, target.buffer, target.rkey), 0);
    EXPECT_EQ(a.next().opcode, IBV_WC_RDMA_READ);
    EXPECT_GE(elapsed(), 2 * kLatency);
    start = Clock::now();
    ASSERT_EQ(a.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, target.buffer, target.rkey, 1), 0);
    EXPECT_EQ(a.next().opcode, IBV_WC_FETCH_ADD);
    EXPECT_GE(elapsed(), 2 * kLatency);
}

// A fenced request starts when the READ before it is complete.
TEST_F(DISABLED_Wire, FenceWaitsForReads)
{
    Endpoint a(device), b(device);
    connect(a, b);
    const Address target = b.address();
    ASSERT_EQ(b.post_receive(0, 8), 0);
    ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_READ, 0, 8, target.buffer, target.rkey), 0);
    ASSERT_EQ(a.post_send(0, 8, 0, IBV_SEND_SIGNALED | IBV_SEND_FENCE), 0);
    EXPECT_EQ(b.next().status, IBV_WC_SUCCESS);
    EXPECT_GE(elapsed(), 3 * kLatency);
}

// A READ of a's, a SEND of a's that is there before the READ is back, and one of b's.
void post_both_ways(Endpoint& a, Endpoint& b)
{
    connect(a, b);
    const Address target = b.address();
    ASSERT_EQ(a.post_receive(0, 8, 3), 0);
    ASSERT_EQ(b.post_receive(0, 8, 4), 0);
    ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_READ, 0, 8, target.buffer, target.rkey, 1), 0);
    ASSERT_EQ(a.post_send(0, 8, 2), 0);
    ASSERT_EQ(b.post_send(0, 8, 5), 0);
}

// Completions of a queue keep their order, those of different queues do not wait for each other.
TEST_F(DISABLED_Wire, OrderOfCompletions)
{
    std::optional<Endpoint> first, second;
    ibv_wc wc;
    unsigned tries = 0;
    do { // until the first one is seen before the READ is back
        ASSERT_LT(tries++, 100u);
        first.emplace(device);
        second.emplace(device);
        start = Clock::now();
        post_both_ways(*first, *second);
        wc = first->next();
    } while (elapsed() >= 2 * kLatency);
    Endpoint &a = *first, &b = *second;
    EXPECT_EQ(wc.wr_id, 3u);
    EXPECT_GE(elapsed(), kLatency);
    for (std::uint64_t id : {1, 2}) {
        wc = a.next();
        EXPECT_EQ(wc.wr_id, id);
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
        EXPECT_GE(elapsed(), 2 * kLatency);
    }
    EXPECT_TRUE(a.is_idle());
    // What is flushed comes after what has been done.
    ASSERT_EQ(b.post_receive(0, 8, 6), 0);
    ASSERT_EQ(b.post_receive(0, 8, 7), 0);
    ASSERT_EQ(a.post_send(0, 8, 8), 0);
    ASSERT_EQ(a.to_error(), 0);
    ASSERT_EQ(b.to_error(), 0);
    ASSERT_EQ(a.post_send(0, 8, 9), 0);
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(a.next().status, IBV_WC_WR_FLUSH_ERR);
    for (std::uint64_t id : {4, 5, 6, 7}) {
        const ibv_wc wc = b.next();
        EXPECT_EQ(wc.wr_id, id);
        EXPECT_EQ(wc.status, id == 7 ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS);
    }
}

TEST_F(DISABLED_Wire, ChannelFiresInTime)
{
    ibv_comp_channel* channel = ibv_create_comp_channel(device.context);
    pollfd descriptor = {channel->fd, POLLIN, 0};
    {
        Options options;
        options.channel = channel;
        Endpoint a(device, options), b(device);
        connect(a, b);
        for (bool armed_first : {true, false}) {
            ASSERT_EQ(a.post_receive(0, 8), 0);
            ASSERT_TRUE(!armed_first || ibv_req_notify_cq(a.cq, 0) == 0);
            start = Clock::now();
            ASSERT_EQ(b.post_send(0, 8), 0);
            ASSERT_TRUE(armed_first || ibv_req_notify_cq(a.cq, 0) == 0);
            ASSERT_EQ(poll(&descriptor, 1, 10000), 1);
            EXPECT_GE(elapsed(), kLatency);
            ibv_cq* cq;
            void* context;
            ASSERT_EQ(ibv_get_cq_event(channel, &cq, &context), 0);
            ibv_ack_cq_events(cq, 1);
            ibv_wc wc;
            EXPECT_EQ(ibv_poll_cq(a.cq, 1, &wc), 1); // it has come
            EXPECT_EQ(b.next().status, IBV_WC_SUCCESS);
        }
    }
    EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

// Two queue pairs, one of another process, send through the same port.
TEST_F(DISABLED_Wire, PortsAreShared)
{
    Child child([](Child::Link& link) {
        Device own;
        Endpoint c(own);
        ASSERT_EQ(c.post_receive(0, kMegabyte), 0);
        meet(link, c);
        ASSERT_EQ(c.post_send(0, kMegabyte), 0);
        EXPECT_EQ(c.next().status, IBV_WC_SUCCESS);
        link.put('p');
        EXPECT_EQ(c.next().status, IBV_WC_SUCCESS);
    });
    Endpoint a(device), b(device), d(device);
    connect(a, b);
    ASSERT_EQ(b.post_receive(0, kMegabyte), 0);
    ASSERT_EQ(d.post_receive(0, kMegabyte), 0);
    start = Clock::now(); // the other process may be quicker
    meet(child.link(), d);
    ASSERT_EQ(a.post_send(0, kMegabyte), 0);
    ASSERT_EQ(d.post_send(0, kMegabyte), 0);
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    EXPECT_GE(elapsed(), kMegabyteTime);
    while (d.next().opcode != IBV_WC_SEND) {
    }
    EXPECT_GE(elapsed(), 2 * kMegabyteTime);
    child.link().get<char>();
    child.join();
    EXPECT_GE(elapsed(), 3 * kMegabyteTime);
}

TEST_F(DISABLED_Wire, MessageRate)
{
    Endpoint a(device), b(device);
    connect(a, b);
    const Address target = b.address();
    for (unsigned i = 0; i < 11; ++i) {
        ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE, 0, 8, target.buffer, target.rkey, i,
                              i == 10 ? unsigned{IBV_SEND_SIGNALED} : 0u),
                  0);
    }
    EXPECT_EQ(a.next().wr_id, 10u);
    EXPECT_GE(elapsed(), milliseconds(100));
}

// 100 Gb/s and 25 Gb/s, of EDR lanes.
TEST(DISABLED_WirePorts, ShowTheirSpeed)
{
    const int width[] = {2, 1};
    for (unsigned index = 0; index < 2; ++index) {
        Device device(index);
        ibv_port_attr port;
        ASSERT_EQ(ibv_query_port(device.context, 1, &port), 0);
        EXPECT_EQ(port.active_speed, 32);
        EXPECT_EQ(port.active_width, width[index]);
    }
}

TEST(Wire, Model)
{
    EXPECT_TRUE(run_tests("DISABLED_Wire.*-*PortsAreShared:*MessageRate", {kLatencySetting}));
    EXPECT_TRUE(run_tests("DISABLED_Wire.PortsAreShared", {kBandwidthSetting}));
    EXPECT_TRUE(run_tests("DISABLED_Wire.MessageRate", {"SOFTHCA_MESSAGE_RATE=100"}));
    EXPECT_TRUE(
        run_tests("DISABLED_WirePorts.*", {"SOFTHCA_DEVICES=2", "SOFTHCA_BANDWIDTH_GBPS=100,25"}));
}

TEST(Wire, BadValuesAreNamed)
{
    for (const char* value : {"-1", "x", "5us", "1,", "1,2,3,4,5,6,7,8,9", "nan"}) {
        for (const char* variable :
             {"SOFTHCA_LATENCY_US", "SOFTHCA_BANDWIDTH_GBPS", "SOFTHCA_MESSAGE_RATE"}) {
            const std::string setting = std::string(variable) + "=" + value;
            ::testing::internal::CaptureStderr();
            EXPECT_TRUE(run_tests("DISABLED_WireOff.*", {setting}));
            EXPECT_NE(::testing::internal::GetCapturedStderr().find("softhca: " + setting +
                                                                    " is not understood"),
                      std::string::npos)
                << setting;
        }
    }
}

TEST(DISABLED_WireOff, HasItsDefaultSpeed)
{
    Device device;
    ibv_port_attr port;
    ASSERT_EQ(ibv_query_port(device.context, 1, &port), 0);
    EXPECT_EQ(port.active_speed, 64);
    EXPECT_EQ(port.active_width, 2);
}

} // namespace
