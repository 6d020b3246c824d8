// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory windows of both types: what they grant, how they are bound, invalidated and refused; and
// changing a region in place.
#include "softhca_fixture.hpp"

#include <cstring>

namespace {

constexpr int kRemoteWrite = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

// A pair of endpoints; on the second one's side a region that grants nothing by itself.
class Windows : public ::testing::Test {
  protected:
    Windows() : memory(8192)
    {
        region = ibv_reg_mr(device.pd, memory.data(), memory.size(),
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    }
    ~Windows() override
    {
        if (region != nullptr) {
            EXPECT_EQ(ibv_dereg_mr(region), 0);
        }
    }
    std::uint64_t at(std::size_t offset) const
    {
        return reinterpret_cast<std::uint64_t>(memory.data()) + offset;
    }
    ibv_mw_bind_info range(std::size_t offset, std::size_t length,
                           unsigned access = IBV_ACCESS_REMOTE_WRITE) const
    {
        return {region, at(offset), length, access};
    }
    static int bind_type_1(Endpoint& b, ibv_mw* mw, const ibv_mw_bind_info& info)
    {
        ibv_mw_bind bind = {7, IBV_SEND_SIGNALED, info};
        return ibv_bind_mw(b.qp, mw, &bind);
    }
    static int bind_type_2(Endpoint& b, ibv_mw* mw, std::uint32_t key, const ibv_mw_bind_info& info)
    {
        ibv_send_wr wr = {};
        wr.opcode = IBV_WR_BIND_MW;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.bind_mw.mw = mw;
        wr.bind_mw.rkey = key;
        wr.bind_mw.bind_info = info;
        return b.post(wr);
    }
    static int invalidate(Endpoint& b, std::uint32_t key)
    {
        ibv_send_wr wr = {};
        wr.opcode = IBV_WR_LOCAL_INV;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.invalidate_rkey = key;
        return b.post(wr);
    }
    static ibv_wc_status write(Endpoint& a, std::uint64_t address, std::uint32_t key,
                               std::uint32_t length = 8)
    {
        EXPECT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE, 0, length, address, key), 0);
        return a.next().status;
    }

    Device device;
    std::vector<unsigned char> memory;
    ibv_mr* region;
};

TEST_F(Windows, TypeOneGrantsAPartOfARegion)
{
    ibv_mw* mw = ibv_alloc_mw(device.pd, IBV_MW_TYPE_1);
    ASSERT_NE(mw, nullptr);
    const std::uint32_t before = mw->rkey;
    std::uint32_t key;
    {
        Endpoint a(device), b(device), c(device), d(device);
        connect(a, b);
        connect(c, d);
        ASSERT_EQ(bind_type_1(b, mw, range(1000, 100)), 0);
        const ibv_wc bound = b.next();
        EXPECT_EQ(bound.status, IBV_WC_SUCCESS);
        EXPECT_EQ(bound.opcode, IBV_WC_BIND_MW);
        EXPECT_EQ(bound.wr_id, 7u);
        key = mw->rkey;
        EXPECT_NE(key, before);
        fill(a.buffer.data(), 100, 3);
        EXPECT_EQ(write(a, at(1000), key, 100), IBV_WC_SUCCESS);
        EXPECT_TRUE(is_filled(memory.data() + 1000, 100, 3));
        EXPECT_EQ(write(c, at(1099), key, 1), IBV_WC_SUCCESS); // any QP of the protection domain
        EXPECT_EQ(ibv_dereg_mr(region), EBUSY);
        // No region for local access, and no reading.
        ibv_sge list = {at(1000), 8, key};
        ibv_send_wr wr = {};
        wr.sg_list = &list;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_SEND;
        ASSERT_EQ(b.post(wr), 0);
        EXPECT_EQ(b.next().status, IBV_WC_LOC_PROT_ERR);
        ASSERT_EQ(c.post_rdma(IBV_WR_RDMA_READ, 0, 8, at(1000), key), 0);
        EXPECT_EQ(c.next().status, IBV_WC_REM_ACCESS_ERR);
    }
    for (std::uint64_t outside : {at(999), at(1093)}) {
        Endpoint a(device), b(device);
        connect(a, b);
        EXPECT_EQ(write(a, outside, key), IBV_WC_REM_ACCESS_ERR);
    }
    {
        Endpoint a(device), b(device);
        connect(a, b);
        EXPECT_EQ(write(a, at(1000), region->rkey), IBV_WC_REM_ACCESS_ERR);
    }
    { // bound anew, it has another key
        Endpoint a(device), b(device);
        connect(a, b);
        ASSERT_EQ(bind_type_1(b, mw, range(0, 10)), 0);
        EXPECT_EQ(b.next().status, IBV_WC_SUCCESS);
        EXPECT_EQ(write(a, at(0), mw->rkey), IBV_WC_SUCCESS);
        EXPECT_EQ(write(a, at(1000), key), IBV_WC_REM_ACCESS_ERR);
    }
    { // and none when bound to nothing
        Endpoint a(device), b(device);
        connect(a, b);
        ASSERT_EQ(bind_type_1(b, mw, {nullptr, 0, 0, 0}), 0);
        EXPECT_EQ(b.next().status, IBV_WC_SUCCESS);
        EXPECT_EQ(write(a, at(0), mw->rkey), IBV_WC_REM_ACCESS_ERR);
    }
    EXPECT_EQ(ibv_dealloc_pd(device.pd), EBUSY);
    EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(Windows, TypeTwoServesTheQueuePairItWasBoundThrough)
{
    ibv_mw* mw = ibv_alloc_mw(device.pd, IBV_MW_TYPE_2);
    ASSERT_NE(mw, nullptr);
    const std::uint32_t key = ibv_inc_rkey(mw->rkey), next = ibv_inc_rkey(key);
    {
        Endpoint a(device), b(device), c(device), d(device);
        connect(a, b);
        connect(c, d);
        ASSERT_EQ(bind_type_2(b, mw, key, range(0, 4096, kRemoteWrite | IBV_ACCESS_ZERO_BASED)), 0);
        EXPECT_EQ(b.next().status, IBV_WC_SUCCESS);
        fill(a.buffer.data(), 100, 5);
        EXPECT_EQ(write(a, 50, key, 100), IBV_WC_SUCCESS);
        EXPECT_TRUE(is_filled(memory.data() + 50, 100, 5));
        EXPECT_EQ(write(c, 50, key), IBV_WC_REM_ACCESS_ERR); // arrives at d
        ASSERT_EQ(invalidate(b, key), 0);
        const ibv_wc done = b.next();
        EXPECT_EQ(done.status, IBV_WC_SUCCESS);
        EXPECT_EQ(done.opcode, IBV_WC_LOCAL_INV);
        ASSERT_EQ(bind_type_2(b, mw, next, range(0, 4096)), 0);
        EXPECT_EQ(b.next().status, IBV_WC_SUCCESS);
        EXPECT_EQ(write(a, at(8), next), IBV_WC_SUCCESS);
        EXPECT_EQ(write(a, 50, key), IBV_WC_REM_ACCESS_ERR);
        EXPECT_EQ(ibv_dealloc_mw(mw), 0);
        EXPECT_EQ(ibv_dereg_mr(region), 0);
        region = nullptr;
    }
}

TEST_F(Windows, PeerInvalidatesWithASend)
{
    ibv_mw* mw = ibv_alloc_mw(device.pd, IBV_MW_TYPE_2);
    const std::uint32_t key = ibv_inc_rkey(mw->rkey);
    for (std::uint32_t length : {8u, 5000u, 20000u}) { // on every way a message takes
        Endpoint a(device), b(device);
        connect(a, b);
        ASSERT_EQ(bind_type_2(b, mw, key, range(0, 4096)), 0);
        EXPECT_EQ(b.next().status, IBV_WC_SUCCESS);
        ibv_sge list = a.sge(0, length);
        ibv_send_wr wr = {};
        wr.sg_list = &list;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_SEND_WITH_INV;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.invalidate_rkey = key;
        ASSERT_EQ(a.post(wr), 0); // waits for a receive, and so does the invalidation
        EXPECT_TRUE(b.is_idle());
        Endpoint c(device), d(device);
        ASSERT_EQ(b.post_receive(0, length), 0);
        EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
        const ibv_wc received = b.next();
        EXPECT_EQ(received.opcode, IBV_WC_RECV);
        EXPECT_EQ(received.byte_len, length);
        EXPECT_EQ(received.wc_flags, unsigned{IBV_WC_WITH_INV});
        EXPECT_EQ(received.invalidated_rkey, key);
        EXPECT_EQ(write(a, at(0), key), IBV_WC_REM_ACCESS_ERR);
    }
    { // a key that is no window's of this QP
        Endpoint a(device), b(device);
        connect(a, b);
        ASSERT_EQ(b.post_receive(0, 8), 0);
        ibv_send_wr wr = {};
        wr.opcode = IBV_WR_SEND_WITH_INV;
        wr.invalidate_rkey = b.mr->rkey;
        ASSERT_EQ(a.post(wr), 0);
        EXPECT_EQ(a.next().status, IBV_WC_REM_ACCESS_ERR);
        EXPECT_EQ(b.next().status, IBV_WC_WR_FLUSH_ERR);
    }
    EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

// Small WRITEs to another process wait in its completion queue; an invalidation overtakes none.
TEST_F(Windows, InvalidationComesAfterTheWritesBeforeIt)
{
    constexpr unsigned kRounds = 50;
    Child child([](Child::Link& link) {
        Device own;
        std::vector<unsigned char> target(4096);
        ibv_mr* mr = ibv_reg_mr(own.pd, target.data(), target.size(),
                                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
        ibv_mw* mw = ibv_alloc_mw(own.pd, IBV_MW_TYPE_2);
        Endpoint b(own);
        link.put(b.address());
        b.connect(link.get<Address>());
        std::uint32_t key = mw->rkey;
        for (unsigned round = 1; round <= kRounds; ++round) {
            key = ibv_inc_rkey(key);
            const auto start = reinterpret_cast<std::uint64_t>(target.data());
            ASSERT_EQ(bind_type_2(b, mw, key, {mr, start, 4096, IBV_ACCESS_REMOTE_WRITE}), 0);
            ASSERT_EQ(b.next().status, IBV_WC_SUCCESS);
            ASSERT_EQ(b.post_receive(0, 8), 0);
            link.put(start);
            link.put(key);
            ASSERT_EQ(b.next().status, IBV_WC_SUCCESS);
            std::uint64_t word;
            std::memcpy(&word, target.data(), sizeof word);
            ASSERT_EQ(word, round);
        }
        EXPECT_EQ(ibv_dealloc_mw(mw), 0);
        EXPECT_EQ(ibv_dereg_mr(mr), 0);
        link.put('d');
    });
    Endpoint a(device);
    const Address peer = child.link().get<Address>();
    child.link().put(a.address());
    a.connect(peer);
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
        const auto start = child.link().get<std::uint64_t>();
        const auto key = child.link().get<std::uint32_t>();
        std::memcpy(a.buffer.data(), &round, sizeof round);
        ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE, 0, 8, start, key, 0, 0), 0);
        ibv_send_wr wr = {};
        wr.opcode = IBV_WR_SEND_WITH_INV;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.invalidate_rkey = key;
        ASSERT_EQ(a.post(wr), 0);
        ASSERT_EQ(a.next().status, IBV_WC_SUCCESS);
    }
    child.link().get<char>();
    child.join();
}

TEST_F(Windows, WhatCannotBeBound)
{
    ibv_mw* mw = ibv_alloc_mw(device.pd, IBV_MW_TYPE_2);
    const std::uint32_t key = ibv_inc_rkey(mw->rkey);
    std::vector<unsigned char> other(4096);
    ibv_mr* unbindable = ibv_reg_mr(device.pd, other.data(), other.size(), kAllAccess);
    ibv_mr* constant = ibv_reg_mr(device.pd, other.data(), other.size(), IBV_ACCESS_MW_BIND);
    const auto start = reinterpret_cast<std::uint64_t>(other.data());
    const ibv_mw_bind_info bad[] = {
        {unbindable, start, 8, IBV_ACCESS_REMOTE_WRITE},
        {constant, start, 8, IBV_ACCESS_REMOTE_WRITE},
        {constant, start, 8, IBV_ACCESS_REMOTE_ATOMIC},
        range(0, memory.size() + 1),
        {region, at(0) - 1, 8, IBV_ACCESS_REMOTE_WRITE},
    };
    for (const ibv_mw_bind_info& info : bad) {
        Endpoint a(device), b(device);
        connect(a, b);
        ASSERT_EQ(bind_type_2(b, mw, key, info), 0);
        EXPECT_EQ(b.next().status, IBV_WC_MW_BIND_ERR);
        EXPECT_EQ(b.state(), IBV_QPS_ERR);
    }
    ibv_pd* pd = ibv_alloc_pd(device.context);
    ibv_mw* foreign = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    Endpoint a(device), b(device);
    connect(a, b);
    EXPECT_EQ(bind_type_2(b, foreign, ibv_inc_rkey(foreign->rkey), range(0, 8)), EINVAL);
    EXPECT_EQ(bind_type_2(b, mw, key + 0x100, range(0, 8)), EINVAL); // not a key of this window
    EXPECT_EQ(bind_type_2(b, mw, key, range(0, 8, IBV_ACCESS_MW_BIND)), EINVAL);
    ASSERT_EQ(bind_type_2(b, mw, key, range(0, 8)), 0);
    EXPECT_EQ(b.next().status, IBV_WC_SUCCESS);
    ASSERT_EQ(bind_type_2(b, mw, ibv_inc_rkey(key), range(0, 8)), 0); // is bound
    EXPECT_EQ(b.next().status, IBV_WC_MW_BIND_ERR);
    ASSERT_EQ(invalidate(a, key), 0); // bound through b
    EXPECT_EQ(a.next().status, IBV_WC_LOC_QP_OP_ERR);
    EXPECT_EQ(ibv_dealloc_mw(mw), 0);
    EXPECT_EQ(ibv_dealloc_mw(foreign), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_dereg_mr(constant), 0);
    EXPECT_EQ(ibv_dereg_mr(unbindable), 0);
    errno = 0;
    EXPECT_EQ(ibv_alloc_mw(device.pd, static_cast<ibv_mw_type>(3)), nullptr);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(Windows, RegionsAreChangedInPlace)
{
    std::vector<unsigned char> other(16384);
    ibv_pd* pd = ibv_alloc_pd(device.context);
    const std::uint32_t key = region->rkey;
    const auto rereg = [&](int flags, ibv_pd* to, std::vector<unsigned char>* data, int access) {
        return ibv_rereg_mr(region, flags, to, data == nullptr ? nullptr : data->data(),
                            data == nullptr ? 0 : data->size(), access);
    };
    const auto write_status = [&](std::uint64_t address) {
        Endpoint a(device), b(device);
        connect(a, b);
        return write(a, address, key);
    };
    EXPECT_EQ(write_status(at(0)), IBV_WC_REM_ACCESS_ERR);
    ASSERT_EQ(rereg(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, kRemoteWrite), 0);
    EXPECT_EQ(region->rkey, key);
    EXPECT_EQ(write_status(at(0)), IBV_WC_SUCCESS);
    ASSERT_EQ(rereg(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, &other, 0), 0);
    EXPECT_EQ(region->addr, other.data());
    EXPECT_EQ(region->length, other.size());
    EXPECT_EQ(write_status(reinterpret_cast<std::uint64_t>(other.data()) + 16000), IBV_WC_SUCCESS);
    EXPECT_EQ(write_status(at(0)), IBV_WC_REM_ACCESS_ERR);
    ASSERT_EQ(rereg(IBV_REREG_MR_CHANGE_PD, pd, nullptr, 0), 0);
    EXPECT_EQ(region->pd, pd);
    EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
    EXPECT_EQ(write_status(reinterpret_cast<std::uint64_t>(other.data())), IBV_WC_REM_ACCESS_ERR);
    const int all =
        IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS;
    ASSERT_EQ(rereg(all, device.pd, &memory, IBV_ACCESS_LOCAL_WRITE), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(write_status(at(0)), IBV_WC_REM_ACCESS_ERR);
    // What is refused leaves the region as it is.
    EXPECT_EQ(rereg(0, nullptr, nullptr, 0), int{IBV_REREG_MR_ERR_INPUT});
    EXPECT_EQ(rereg(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, IBV_ACCESS_REMOTE_WRITE),
              int{IBV_REREG_MR_ERR_CMD});
    EXPECT_EQ(errno, EINVAL);
    ASSERT_EQ(
        rereg(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, kRemoteWrite | IBV_ACCESS_MW_BIND), 0);
    EXPECT_EQ(write_status(at(0)), IBV_WC_SUCCESS);
    Endpoint a(device), b(device);
    connect(a, b);
    ibv_mw* mw = ibv_alloc_mw(device.pd, IBV_MW_TYPE_1);
    ASSERT_EQ(bind_type_1(b, mw, range(0, 8)), 0);
    EXPECT_EQ(b.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(rereg(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, &other, 0),
              int{IBV_REREG_MR_ERR_INPUT});
    EXPECT_EQ(errno, EBUSY);
    EXPECT_EQ(write(a, at(0), key), IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

// A message that arrives for a buffer deregistered since is refused as an HCA does it.
TEST_F(Windows, ReceiveBufferDeregisteredBeforeTheMessage)
{
    for (std::uint32_t length : {8u, 5000u}) {
        Endpoint a(device), b(device);
        connect(a, b);
        std::vector<unsigned char> buffer(8192);
        ibv_mr* mr = ibv_reg_mr(device.pd, buffer.data(), buffer.size(), IBV_ACCESS_LOCAL_WRITE);
        ibv_sge list = {reinterpret_cast<std::uint64_t>(buffer.data()), 8192, mr->lkey};
        ibv_recv_wr wr = {1, nullptr, &list, 1}, *bad;
        ASSERT_EQ(ibv_post_recv(b.qp, &wr, &bad), 0);
        EXPECT_EQ(ibv_dereg_mr(mr), 0);
        ASSERT_EQ(a.post_send(0, length), 0);
        EXPECT_EQ(a.next().status, IBV_WC_REM_OP_ERR);
        EXPECT_EQ(b.next().status, IBV_WC_LOC_PROT_ERR);
        EXPECT_EQ(next_event(device.context), IBV_EVENT_QP_FATAL);
    }
}

} // namespace
