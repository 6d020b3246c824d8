// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Reliable connections between two queue pairs of one process: transfers, their errors, and the
// rules of queues.
#include "softhca_fixture.hpp"

#include <atomic>
#include <cstring>
#include <poll.h>
#include <thread>

namespace {

class Rc : public ::testing::Test {
  protected:
    Device device;
};

TEST_F(Rc, SendsOfEverySizeArrive)
{
    Endpoint a(device), b(device);
    connect(a, b);
    const std::uint32_t sizes[] = {0, 1, 17, 87, 88, 89, 4096, 8191, 8192, 8193, 300000};
    for (std::uint32_t size : sizes) {
        fill(a.buffer.data(), size, size);
        std::memset(b.buffer.data(), 0, size + 1);
        ASSERT_EQ(b.post_receive(0, size + 1, 42), 0);
        ASSERT_EQ(a.post_send(0, size, 43), 0);
        const ibv_wc sent = a.next(), received = b.next();
        EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
        EXPECT_EQ(sent.wr_id, 43u);
        EXPECT_EQ(sent.opcode, IBV_WC_SEND);
        EXPECT_EQ(sent.qp_num, a.qp->qp_num);
        EXPECT_EQ(received.status, IBV_WC_SUCCESS);
        EXPECT_EQ(received.wr_id, 42u);
        EXPECT_EQ(received.opcode, IBV_WC_RECV);
        EXPECT_EQ(received.byte_len, size);
        EXPECT_EQ(received.qp_num, b.qp->qp_num);
        EXPECT_TRUE(is_filled(b.buffer.data(), size, size));
        EXPECT_EQ(b.buffer[size], 0);
    }
}

TEST_F(Rc, ListsAreGatheredAndScattered)
{
    Options options;
    options.sge = 30;
    Endpoint a(device, options), b(device, options);
    connect(a, b);
    for (std::uint32_t piece : {1u, 100u, 3000u}) {
        ibv_sge from[30], to[30];
        for (unsigned i = 0; i < 30; ++i) {
            from[i] = a.sge(i * 4096, piece);
            to[i] = b.sge(i * 8192, i % 2 == 0 ? 2 * piece : 0);
            fill(a.buffer.data() + i * 4096, piece, i);
        }
        ibv_recv_wr receive = {0, nullptr, to, 30};
        ibv_recv_wr* bad_receive;
        ASSERT_EQ(ibv_post_recv(b.qp, &receive, &bad_receive), 0);
        ibv_send_wr send = {};
        send.sg_list = from;
        send.num_sge = 30;
        send.opcode = IBV_WR_SEND_WITH_IMM;
        send.imm_data = 0x12345678;
        send.send_flags = IBV_SEND_SIGNALED;
        ASSERT_EQ(a.post(send), 0);
        EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
        const ibv_wc received = b.next();
        EXPECT_EQ(received.byte_len, 30 * piece);
        EXPECT_EQ(received.wc_flags & IBV_WC_WITH_IMM, unsigned{IBV_WC_WITH_IMM});
        EXPECT_EQ(received.imm_data, 0x12345678u);
        for (unsigned i = 0; i < 30; ++i) {
            EXPECT_TRUE(
                is_filled(b.buffer.data() + (i / 2) * 2 * 8192 + (i % 2) * piece, piece, i));
        }
    }
}

TEST_F(Rc, InlineDataMayBeReusedAtOnce)
{
    Endpoint a(device), b(device);
    connect(a, b);
    unsigned char data[256];
    ibv_sge list = {reinterpret_cast<std::uint64_t>(data), sizeof data, 0}; // no key
    ibv_send_wr send = {};
    send.sg_list = &list;
    send.num_sge = 1;
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
    for (unsigned i = 0; i < 3; ++i) { // the receiver is not ready: they wait in the queue
        fill(data, sizeof data, i);
        ASSERT_EQ(a.post(send), 0);
    }
    std::memset(data, 0, sizeof data);
    for (unsigned i = 0; i < 3; ++i) {
        ASSERT_EQ(b.post_receive(i * 1000, 1000), 0);
    }
    for (unsigned i = 0; i < 3; ++i) {
        EXPECT_EQ(b.next().status, IBV_WC_SUCCESS);
        EXPECT_TRUE(is_filled(b.buffer.data() + i * 1000, sizeof data, i));
        EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    }
    list.length = 257;
    EXPECT_EQ(a.post(send), EINVAL);
}

TEST_F(Rc, WriteReadAndImmediate)
{
    Endpoint a(device), b(device);
    connect(a, b);
    const Address target = b.address();
    for (std::uint32_t size : {8u, 5000u, 200000u}) {
        fill(a.buffer.data(), size, size);
        ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE, 0, size, target.buffer + 64, target.rkey), 0);
        EXPECT_EQ(a.next().opcode, IBV_WC_RDMA_WRITE);
        EXPECT_TRUE(is_filled(b.buffer.data() + 64, size, size));
        ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_READ, 500000, size, target.buffer + 64, target.rkey), 0);
        const ibv_wc read = a.next();
        EXPECT_EQ(read.opcode, IBV_WC_RDMA_READ);
        EXPECT_EQ(read.byte_len, size);
        EXPECT_TRUE(is_filled(a.buffer.data() + 500000, size, size));
        ASSERT_EQ(b.post_receive(0, 0, 9), 0);
        ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE_WITH_IMM, 0, size, target.buffer, target.rkey), 0);
        const ibv_wc notified = b.next();
        EXPECT_EQ(notified.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
        EXPECT_EQ(notified.wr_id, 9u);
        EXPECT_EQ(notified.byte_len, size);
        EXPECT_TRUE(is_filled(b.buffer.data(), size, size));
        EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    }
    // Nothing of a zero-byte operation's address is looked at.
    ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE, 0, 0, 0, 0), 0);
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
}

TEST_F(Rc, Atomics)
{
    Endpoint a(device), b(device);
    connect(a, b);
    const Address target = b.address();
    auto* word = reinterpret_cast<std::uint64_t*>(b.buffer.data());
    auto* result = reinterpret_cast<std::uint64_t*>(a.buffer.data());
    *word = 5;
    ASSERT_EQ(a.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, target.buffer, target.rkey, 7), 0);
    EXPECT_EQ(a.next().opcode, IBV_WC_FETCH_ADD);
    EXPECT_EQ(*result, 5u);
    EXPECT_EQ(*word, 12u);
    ASSERT_EQ(a.post_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 0, target.buffer, target.rkey, 11, 99), 0);
    EXPECT_EQ(a.next().opcode, IBV_WC_COMP_SWAP);
    EXPECT_EQ(*result, 12u);
    EXPECT_EQ(*word, 12u);
    ASSERT_EQ(a.post_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 0, target.buffer, target.rkey, 12, 99), 0);
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(*word, 99u);
    ASSERT_EQ(a.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, target.buffer + 4, target.rkey, 1), 0);
    EXPECT_EQ(a.next().status, IBV_WC_REM_INV_REQ_ERR); // not aligned
}

TEST_F(Rc, UnsignalledRequestsCompleteSilently)
{
    Endpoint a(device), b(device);
    connect(a, b);
    for (unsigned i = 0; i < 4; ++i) {
        ASSERT_EQ(b.post_receive(0, 100, i), 0);
        ASSERT_EQ(a.post_send(0, 8, i, i == 3 ? unsigned{IBV_SEND_SIGNALED} : 0u), 0);
    }
    EXPECT_EQ(a.next().wr_id, 3u);
    EXPECT_TRUE(a.is_idle());
    Options all;
    all.sig_all = 1;
    Endpoint c(device, all), d(device);
    connect(c, d);
    ASSERT_EQ(d.post_receive(0, 100), 0);
    ASSERT_EQ(c.post_send(0, 8, 5, 0), 0);
    EXPECT_EQ(c.next().wr_id, 5u);
}

TEST_F(Rc, NoSystemCallWithinAProcess)
{
    Endpoint a(device), b(device);
    connect(a, b);
    const Address target = b.address();
    const auto before = counters();
    for (unsigned i = 0; i < 100; ++i) {
        ASSERT_EQ(b.post_receive(0, 300000), 0);
        ASSERT_EQ(a.post_send(0, i % 2 == 0 ? 8 : 300000), 0);
        ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE, 0, 70000, target.buffer, target.rkey), 0);
        ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_READ, 0, 8, target.buffer, target.rkey), 0);
        ASSERT_EQ(a.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, target.buffer, target.rkey, 1), 0);
        for (unsigned j = 0; j < 4; ++j) {
            ASSERT_EQ(a.next().status, IBV_WC_SUCCESS);
        }
        ASSERT_EQ(b.next().status, IBV_WC_SUCCESS);
    }
    const auto after = counters();
    EXPECT_EQ(after.system_calls, before.system_calls);
    EXPECT_EQ(after.sends - before.sends, 100u);
    EXPECT_EQ(after.writes - before.writes, 100u);
    EXPECT_EQ(after.reads - before.reads, 100u);
    EXPECT_EQ(after.atomics - before.atomics, 100u);
    EXPECT_EQ(after.bytes - before.bytes, 50u * (8 + 300000) + 100u * (70000 + 8 + 8));
    EXPECT_EQ(after.registrations, before.registrations);
}

TEST_F(Rc, DoorbellsSignaledAndPolledAreCounted)
{
    Endpoint a(device), b(device);
    connect(a, b);
    const auto before = counters();
    for (unsigned i = 0; i < 4; ++i) {
        ASSERT_EQ(b.post_receive(0, 100), 0);
    }
    ibv_sge from = a.sge(0, 8);
    ibv_send_wr list[4] = {};
    for (unsigned i = 0; i < 4; ++i) {
        list[i].sg_list = &from;
        list[i].num_sge = 1;
        list[i].opcode = IBV_WR_SEND;
        list[i].next = i < 2 ? &list[i + 1] : nullptr;
    }
    list[3].send_flags = IBV_SEND_SIGNALED;
    ASSERT_EQ(a.post(list[0]), 0); // three at once
    ASSERT_EQ(a.post(list[3]), 0);
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    for (unsigned i = 0; i < 4; ++i) {
        EXPECT_EQ(b.next().status, IBV_WC_SUCCESS);
    }
    const auto after = counters();
    EXPECT_EQ(after.sends - before.sends, 4u);
    EXPECT_EQ(after.signaled - before.signaled, 1u);
    EXPECT_EQ(after.doorbells - before.doorbells, 2u);
    EXPECT_EQ(after.completions - before.completions, 5u); // one sent, four received
}

// Each case gets a fresh pair, for every error ends a connection.
class RcError : public Rc {
  protected:
    void expect_failure(const std::function<int(Endpoint&, const Address&)>& post,
                        ibv_wc_status status, int event, int access = kAllAccess)
    {
        Options responder;
        responder.access = access;
        Endpoint a(device), b(device, responder);
        connect(a, b);
        ASSERT_EQ(b.post_receive(0, 100, 77), 0);
        std::memset(b.buffer.data(), 0xee, b.buffer.size());
        ASSERT_EQ(post(a, b.address()), 0);
        ASSERT_EQ(a.post_send(0, 8, 2), 0);
        EXPECT_EQ(a.next().status, status);
        const ibv_wc flushed = a.next();
        EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
        EXPECT_EQ(flushed.wr_id, 2u);
        EXPECT_EQ(a.state(), IBV_QPS_ERR);
        for (unsigned char byte : b.buffer) {
            ASSERT_EQ(byte, 0xee);
        }
        if (event >= 0) {
            EXPECT_EQ(next_event(device.context), event);
            EXPECT_EQ(b.state(), IBV_QPS_ERR);
            const ibv_wc receive = b.next();
            EXPECT_EQ(receive.status, IBV_WC_WR_FLUSH_ERR);
            EXPECT_EQ(receive.wr_id, 77u);
        } else {
            EXPECT_EQ(b.state(), IBV_QPS_RTS);
        }
    }
    template <int Opcode>
    static int rdma(Endpoint& a, std::uint64_t remote, std::uint32_t rkey)
    {
        return a.post_rdma(static_cast<ibv_wr_opcode>(Opcode), 0, 64, remote, rkey);
    }
};

TEST_F(RcError, RemoteAccessIsChecked)
{
    const int event = IBV_EVENT_QP_ACCESS_ERR;
    const auto status = IBV_WC_REM_ACCESS_ERR;
    const std::uint64_t size = Options().buffer_size;
    expect_failure(
        [](Endpoint& a, const Address& b) {
            return rdma<IBV_WR_RDMA_WRITE>(a, b.buffer, b.rkey + (1 << 15));
        },
        status, event);
    expect_failure(
        [](Endpoint& a, const Address& b) { return rdma<IBV_WR_RDMA_WRITE>(a, b.buffer, 0); },
        status, event);
    expect_failure(
        [](Endpoint& a, const Address& b) {
            return rdma<IBV_WR_RDMA_WRITE>(a, b.buffer, b.rkey + 1);
        },
        status, event);
    expect_failure(
        [](Endpoint& a, const Address& b) {
            return rdma<IBV_WR_RDMA_WRITE>(a, b.buffer - 1, b.rkey);
        },
        status, event);
    expect_failure(
        [](Endpoint& a, const Address& b) {
            return rdma<IBV_WR_RDMA_WRITE>(a, b.buffer + size - 63, b.rkey);
        },
        status, event);
    expect_failure(
        [](Endpoint& a, const Address& b) { return rdma<IBV_WR_RDMA_READ>(a, ~0ull - 10, b.rkey); },
        status, event);
    const int request_event = IBV_EVENT_QP_REQ_ERR;
    expect_failure(
        [](Endpoint& a, const Address& b) { return rdma<IBV_WR_RDMA_WRITE>(a, b.buffer, b.rkey); },
        IBV_WC_REM_INV_REQ_ERR, request_event, IBV_ACCESS_REMOTE_READ);
    expect_failure(
        [](Endpoint& a, const Address& b) { return rdma<IBV_WR_RDMA_READ>(a, b.buffer, b.rkey); },
        IBV_WC_REM_INV_REQ_ERR, request_event, IBV_ACCESS_REMOTE_WRITE);
}

TEST_F(RcError, RegionGrantsOnlyItsAccess)
{
    std::vector<unsigned char> memory(4096);
    ibv_mr* local = ibv_reg_mr(device.pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
    ibv_pd* foreign_pd = ibv_alloc_pd(device.context);
    ibv_mr* foreign = ibv_reg_mr(foreign_pd, memory.data(), memory.size(), kAllAccess);
    const auto at = reinterpret_cast<std::uint64_t>(memory.data());
    for (ibv_mr* mr : {local, foreign}) {
        for (int opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
            expect_failure(
                [&](Endpoint& a, const Address&) {
                    return a.post_rdma(static_cast<ibv_wr_opcode>(opcode), 0, 8, at, mr->rkey);
                },
                IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
        }
        expect_failure(
            [&](Endpoint& a, const Address&) {
                return a.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, at, mr->rkey, 1);
            },
            IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
    }
    EXPECT_EQ(ibv_dereg_mr(local), 0);
    expect_failure(
        [&](Endpoint& a, const Address&) { // the key is no more
            return a.post_rdma(IBV_WR_RDMA_WRITE, 0, 8, at, foreign->rkey & ~0x1ffffu);
        },
        IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
    EXPECT_EQ(ibv_dereg_mr(foreign), 0);
    EXPECT_EQ(ibv_dealloc_pd(foreign_pd), 0);
}

TEST_F(RcError, LocalKeysAreChecked)
{
    expect_failure(
        [](Endpoint& a, const Address&) {
            ibv_sge list = {reinterpret_cast<std::uint64_t>(a.buffer.data()), 8, a.mr->lkey + 1};
            ibv_send_wr wr = {};
            wr.sg_list = &list;
            wr.num_sge = 1;
            wr.opcode = IBV_WR_SEND;
            return a.post(wr);
        },
        IBV_WC_LOC_PROT_ERR, -1);
}

TEST_F(RcError, MessageLongerThanTheBuffer)
{
    Endpoint a(device), b(device);
    connect(a, b);
    ASSERT_EQ(b.post_receive(0, 7), 0);
    ASSERT_EQ(a.post_send(0, 8), 0);
    EXPECT_EQ(b.next().status, IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(a.next().status, IBV_WC_REM_INV_REQ_ERR);
    EXPECT_EQ(next_event(device.context), IBV_EVENT_QP_REQ_ERR);
}

TEST_F(RcError, ReceiveBufferWithoutRegistration)
{
    Endpoint a(device), b(device);
    connect(a, b);
    ibv_sge list = b.sge(0, 100);
    list.lkey += 1;
    ibv_recv_wr wr = {5, nullptr, &list, 1};
    ibv_recv_wr* bad;
    ASSERT_EQ(ibv_post_recv(b.qp, &wr, &bad), 0);
    ASSERT_EQ(a.post_send(0, 8), 0);
    EXPECT_EQ(b.next().status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(a.next().status, IBV_WC_REM_OP_ERR);
    EXPECT_EQ(next_event(device.context), IBV_EVENT_QP_FATAL);
}

TEST_F(Rc, ReceiverNotReadyWithoutRetry)
{
    Options options;
    options.rnr_retry = 0;
    Endpoint a(device, options), b(device);
    connect(a, b);
    ASSERT_EQ(a.post_send(0, 8, 3), 0);
    const ibv_wc wc = a.next();
    EXPECT_EQ(wc.status, IBV_WC_RNR_RETRY_EXC_ERR);
    EXPECT_EQ(wc.wr_id, 3u);
    EXPECT_EQ(a.state(), IBV_QPS_ERR);
    EXPECT_EQ(b.state(), IBV_QPS_RTS);
}

TEST_F(Rc, ReceiverNotReadyUntilRetriesAreOver)
{
    Options options;
    options.rnr_retry = 2;
    options.min_rnr_timer = 26; // 81.92 ms
    Endpoint a(device, options), b(device, options);
    connect(a, b);
    const auto start = std::chrono::steady_clock::now();
    ASSERT_EQ(a.post_send(0, 8), 0);
    EXPECT_EQ(a.next().status, IBV_WC_RNR_RETRY_EXC_ERR);
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(160));
}

TEST_F(Rc, ReceiverNotReadyForLong)
{
    Endpoint a(device), b(device); // rnr_retry 7: without end
    connect(a, b);
    for (unsigned i = 0; i < 10; ++i) {
        fill(a.buffer.data() + i * 10000, 10000, i);
        ASSERT_EQ(a.post_send(i * 10000, 10000, i), 0);
    }
    EXPECT_TRUE(a.is_idle());
    for (unsigned i = 0; i < 10; ++i) {
        ASSERT_EQ(b.post_receive(i * 10000, 10000, i), 0);
    }
    for (unsigned i = 0; i < 10; ++i) {
        EXPECT_EQ(a.next().wr_id, i);
        EXPECT_EQ(b.next().wr_id, i);
        EXPECT_TRUE(is_filled(b.buffer.data() + i * 10000, 10000, i));
    }
}

TEST_F(Rc, ErrorStateFlushesBothQueues)
{
    Endpoint a(device), b(device);
    connect(a, b);
    for (unsigned i = 0; i < 3; ++i) {
        ASSERT_EQ(a.post_receive(0, 100, 100 + i), 0);
        ASSERT_EQ(a.post_send(0, 8, i, 0), 0); // waits; flushed although not signalled
    }
    ASSERT_EQ(a.to_error(), 0);
    unsigned sends = 0, receives = 0;
    for (unsigned i = 0; i < 6; ++i) {
        const ibv_wc wc = a.next();
        EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
        EXPECT_EQ(wc.wr_id, wc.wr_id >= 100 ? 100 + receives++ : sends++);
    }
    EXPECT_EQ(sends, 3u);
    EXPECT_EQ(receives, 3u);
    ASSERT_EQ(a.post_send(0, 8, 50), 0);
    EXPECT_EQ(a.next().wr_id, 50u);
    ASSERT_EQ(a.post_receive(0, 8, 51), 0);
    EXPECT_EQ(a.next().wr_id, 51u);
    // The peer gets no answer any more.
    ASSERT_EQ(b.post_send(0, 8), 0);
    EXPECT_EQ(b.next().status, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(Rc, ResetForgetsEverythingAndConnectsAgain)
{
    Endpoint a(device), b(device);
    connect(a, b);
    ASSERT_EQ(b.post_receive(0, 100, 1), 0);
    ASSERT_EQ(b.post_receive(0, 100, 2), 0);
    ASSERT_EQ(a.post_send(0, 8), 0);
    ibv_qp_attr attr = {};
    for (Endpoint* endpoint : {&a, &b}) {
        attr.qp_state = IBV_QPS_RESET;
        ASSERT_EQ(ibv_modify_qp(endpoint->qp, &attr, IBV_QP_STATE), 0);
        EXPECT_TRUE(endpoint->is_idle());
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = 1;
        attr.qp_access_flags = kAllAccess;
        ASSERT_EQ(
            ibv_modify_qp(endpoint->qp, &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            0);
    }
    connect(a, b);
    for (unsigned i = 0; i < 64; ++i) { // all receive WQEs are free again
        ASSERT_EQ(b.post_receive(0, 100, 10 + i), 0);
    }
    ASSERT_EQ(a.post_send(0, 8), 0);
    EXPECT_EQ(b.next().wr_id, 10u);
}

TEST_F(Rc, QueuesAreAsDeepAsAskedFor)
{
    Endpoint a(device), b(device);
    connect(a, b);
    for (unsigned i = 0; i < 64; ++i) {
        ASSERT_EQ(b.post_receive(0, 100, i), 0);
        ASSERT_EQ(a.post_send(0, 8, i), 0);
    }
    // Entries are free again when their completion has been polled, not before.
    EXPECT_EQ(a.post_send(0, 8), ENOMEM);
    EXPECT_EQ(b.post_receive(0, 100), ENOMEM);
    EXPECT_EQ(a.next().wr_id, 0u);
    EXPECT_EQ(b.next().wr_id, 0u);
    EXPECT_EQ(b.post_receive(0, 100), 0);
    EXPECT_EQ(a.post_send(0, 8), 0);
    EXPECT_EQ(a.post_send(0, 8), ENOMEM);
    EXPECT_EQ(b.post_receive(0, 100), ENOMEM);
}

TEST_F(Rc, CompletionQueueOverrunIsReported)
{
    Options options;
    options.queue_depth = 128;
    Endpoint a(device, options), b(device, options);
    connect(a, b);
    ibv_cq* small = ibv_create_cq(device.context, 1, nullptr, nullptr, 0);
    ASSERT_NE(small, nullptr);
    EXPECT_GE(small->cqe, 1);
    EXPECT_EQ(ibv_resize_cq(a.cq, 0), EINVAL);
    for (unsigned i = 0; i < 8; ++i) {
        ASSERT_EQ(b.post_receive(0, 100, i), 0);
        ASSERT_EQ(a.post_send(0, 8, i), 0);
    }
    EXPECT_EQ(ibv_resize_cq(a.cq, 4), EINVAL); // too small for what is in it
    EXPECT_EQ(ibv_resize_cq(a.cq, 1000), 0);
    EXPECT_GE(a.cq->cqe, 1000);
    for (unsigned i = 0; i < 8; ++i) {
        EXPECT_EQ(a.next().wr_id, i);
    }
    EXPECT_EQ(ibv_resize_cq(b.cq, 8), 0);
    // Full: what is polled makes room.
    ASSERT_EQ(b.next().wr_id, 0u);
    ASSERT_EQ(b.post_receive(0, 100, 8), 0);
    ASSERT_EQ(a.post_send(0, 8, 8), 0);
    pollfd events = {device.context->async_fd, POLLIN, 0};
    EXPECT_EQ(poll(&events, 1, 0), 0);
    // One too many is lost, and so is what follows.
    ASSERT_EQ(b.post_receive(0, 100, 9), 0);
    ASSERT_EQ(a.post_send(0, 8, 9), 0);
    EXPECT_EQ(next_event(device.context), IBV_EVENT_CQ_ERR);
    for (unsigned i = 1; i <= 8; ++i) {
        EXPECT_EQ(b.next().wr_id, i);
    }
    ASSERT_EQ(b.post_receive(0, 100, 10), 0);
    ASSERT_EQ(a.post_send(0, 8, 10), 0);
    ibv_wc none;
    EXPECT_EQ(ibv_poll_cq(b.cq, 1, &none), 0);
    EXPECT_EQ(ibv_destroy_cq(small), 0);
}

TEST_F(Rc, TransitionsNeedTheirAttributes)
{
    Endpoint a(device), b(device);
    EXPECT_EQ(a.to_rts(), EINVAL); // not from INIT
    EXPECT_EQ(a.post_send(0, 8), EINVAL);
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_RTR;
    EXPECT_EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), EINVAL);
    EXPECT_EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_QKEY), EINVAL);
    EXPECT_EQ(a.to_rtr(b.address()), 0);
    EXPECT_EQ(a.post_send(0, 8), EINVAL);
    attr.timeout = 32;
    attr.qp_state = IBV_QPS_RTS;
    EXPECT_EQ(ibv_modify_qp(a.qp, &attr,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
              EINVAL);
    EXPECT_EQ(a.to_rts(), 0);
    EXPECT_EQ(a.state(), IBV_QPS_RTS);
    ibv_qp_attr now;
    ibv_qp_init_attr init;
    ASSERT_EQ(ibv_query_qp(a.qp, &now, 0, &init), 0);
    EXPECT_EQ(now.dest_qp_num, b.qp->qp_num);
    EXPECT_EQ(now.timeout, 12);
    EXPECT_EQ(now.path_mtu, IBV_MTU_4096);
    EXPECT_EQ(init.cap.max_send_wr, 64u);
}

TEST_F(Rc, SendBeforeThePeerIsReady)
{
    Endpoint a(device), b(device);
    a.options.retry_count = 7;
    a.options.timeout = 17; // half a second, eight times
    a.connect(b.address());
    ASSERT_EQ(b.post_receive(0, 100), 0);
    ASSERT_EQ(a.post_send(0, 8), 0);
    EXPECT_TRUE(a.is_idle());
    b.connect(a.address());
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(b.next().status, IBV_WC_SUCCESS);
}

TEST_F(Rc, DestroyedPeerDoesNotAnswer)
{
    Endpoint a(device);
    {
        Endpoint b(device);
        connect(a, b);
        ASSERT_EQ(a.post_send(0, 8, 1), 0); // no receive posted: it waits
    }
    EXPECT_EQ(a.next().status, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(Rc, DestroyingObjectsInUseIsRefused)
{
    ibv_comp_channel* channel = ibv_create_comp_channel(device.context);
    ibv_cq* cq = ibv_create_cq(device.context, 10, nullptr, channel, 0);
    EXPECT_EQ(ibv_destroy_comp_channel(channel), EBUSY);
    Endpoint a(device);
    EXPECT_EQ(ibv_destroy_cq(a.cq), EBUSY);
    EXPECT_EQ(ibv_dealloc_pd(device.pd), EBUSY);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(Rc, ThreadsShareAQueuePair)
{
    constexpr unsigned kThreads = 4, kEach = 2000, kSlots = 16, kLong = 20000;
    Options options;
    options.queue_depth = 1024;
    options.buffer_size = kThreads * kSlots * kLong;
    Endpoint a(device, options), b(device, options);
    connect(a, b);
    // A thread uses a buffer again once the message in it has been polled.
    std::atomic<unsigned> received[kThreads] = {};
    std::vector<std::thread> threads;
    unsigned failures = 0;
    for (unsigned t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            for (unsigned i = 0; i < kEach; ++i) {
                while (i - received[t] == kSlots) {
                    std::this_thread::yield();
                }
                const std::size_t slot = t * kSlots + i % kSlots;
                EXPECT_EQ(b.post_receive(slot * kLong, kLong, t), 0);
                while (a.post_send(t * kLong, i % 3 == 0 ? kLong : 8) == ENOMEM) {
                    std::this_thread::yield();
                }
            }
        });
    }
    for (unsigned i = 0; i < kThreads * kEach; ++i) {
        failures += a.next().status != IBV_WC_SUCCESS;
        const ibv_wc wc = b.next();
        failures += wc.status != IBV_WC_SUCCESS;
        ++received[wc.wr_id % kThreads];
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(failures, 0u);
}

} // namespace
