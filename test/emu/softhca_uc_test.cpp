// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Unreliable connections: what arrives, and what is lost without the sender's knowledge.
#include "softhca_fixture.hpp"

#include <cerrno>
#include <cstring>

namespace {

class Uc : public ::testing::Test {
  protected:
    static Options unreliable()
    {
        Options options;
        options.type = IBV_QPT_UC;
        return options;
    }

    Device device;
    Endpoint a{device, unreliable()}, b{device, unreliable()};
};

TEST_F(Uc, SendsOfEverySizeArrive)
{
    connect(a, b);
    for (const std::uint32_t size : {0u, 1u, 80u, 4096u, 8193u, 300000u}) {
        fill(a.buffer.data(), size, size);
        std::memset(b.buffer.data(), 0, size + 1);
        ASSERT_EQ(b.post_receive(0, size + 1, 42), 0);
        ASSERT_EQ(a.post_send(0, size, 43), 0);
        EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
        const ibv_wc received = b.next();
        EXPECT_EQ(received.status, IBV_WC_SUCCESS);
        EXPECT_EQ(received.byte_len, size);
        EXPECT_TRUE(is_filled(b.buffer.data(), size, size));
    }
}

TEST_F(Uc, WritesArriveWithAndWithoutImmediate)
{
    connect(a, b);
    const std::uint64_t remote = b.address().buffer;
    fill(a.buffer.data(), 5000, 1);
    ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE, 0, 5000, remote, b.mr->rkey), 0);
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    EXPECT_TRUE(is_filled(b.buffer.data(), 5000, 1));
    fill(a.buffer.data(), 100, 2);
    ASSERT_EQ(b.post_receive(0, 0, 42), 0);
    ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 100, remote, b.mr->rkey), 0);
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(b.next().opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_TRUE(is_filled(b.buffer.data(), 100, 2));
}

TEST_F(Uc, WhatFindsNoReceiveIsLost)
{
    connect(a, b);
    ASSERT_EQ(a.post_send(0, 10), 0);
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    ASSERT_EQ(b.post_receive(0, 100), 0);
    EXPECT_TRUE(b.is_idle());
    ASSERT_EQ(a.post_send(0, 20), 0);
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(b.next().byte_len, 20u);
}

TEST_F(Uc, WhatFindsNoPeerIsLost)
{
    {
        Endpoint gone(device, unreliable());
        connect(a, gone);
    }
    ASSERT_EQ(a.post_send(0, 10), 0);
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(a.state(), IBV_QPS_RTS);
}

TEST_F(Uc, WhatMayNotBeWrittenIsDropped)
{
    connect(a, b);
    fill(b.buffer.data(), 100, 3);
    ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE, 0, 100, b.address().buffer, b.mr->rkey + (1u << 20)),
              0);
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    EXPECT_TRUE(is_filled(b.buffer.data(), 100, 3));
    EXPECT_EQ(a.state(), IBV_QPS_RTS);
    EXPECT_EQ(b.state(), IBV_QPS_RTS);
}

TEST_F(Uc, AReceiveThatIsTooShortEndsTheReceiverAlone)
{
    connect(a, b);
    ASSERT_EQ(b.post_receive(0, 10), 0);
    ASSERT_EQ(a.post_send(0, 11), 0);
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(b.next().status, IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(a.state(), IBV_QPS_RTS);
    EXPECT_EQ(b.state(), IBV_QPS_ERR);
}

TEST_F(Uc, ReadsAndAtomicsAreRefused)
{
    connect(a, b);
    EXPECT_EQ(a.post_rdma(IBV_WR_RDMA_READ, 0, 8, b.address().buffer, b.mr->rkey), EINVAL);
    EXPECT_EQ(a.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, b.address().buffer, b.mr->rkey, 1),
              EINVAL);
}

TEST_F(Uc, AnErrorOfTheSenderStopsItsQueueUntilItGoesOn)
{
    connect(a, b);
    ibv_sge list = a.sge(0, 10);
    list.lkey += 1u << 20;
    ASSERT_EQ(a.post(IBV_WR_SEND, list), 0);
    EXPECT_EQ(a.next().status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(a.state(), IBV_QPS_SQE);
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(ibv_modify_qp(a.qp, &attributes, IBV_QP_STATE), 0);
    ASSERT_EQ(b.post_receive(0, 100), 0);
    ASSERT_EQ(a.post_send(0, 10), 0);
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(b.next().byte_len, 10u);
}

TEST_F(Uc, DoesNotReachAReliableQueuePair)
{
    Endpoint reliable(device);
    connect(a, reliable);
    ASSERT_EQ(reliable.post_receive(0, 100), 0);
    ASSERT_EQ(a.post_send(0, 10), 0);
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    EXPECT_TRUE(reliable.is_idle());
    ASSERT_EQ(reliable.post_send(0, 10), 0);
    EXPECT_EQ(reliable.next().status, IBV_WC_RETRY_EXC_ERR);
}

} // namespace
