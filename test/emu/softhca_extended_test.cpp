// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The extended interfaces: ibv_wr_*, completion queues read by functions, parent domains, queries.
#include "softhca_fixture.hpp"

#include <cstring>

namespace {

// An RC queue pair with the ibv_wr_* functions, in place of an endpoint's.
class Extended : public ::testing::Test {
  protected:
    static ibv_qp_ex* replace_qp(Endpoint& endpoint, ibv_qp_type type = IBV_QPT_RC,
                                 ibv_pd* pd = nullptr)
    {
        EXPECT_EQ(ibv_destroy_qp(endpoint.qp), 0);
        ibv_qp_init_attr_ex init = {};
        init.send_cq = init.recv_cq = endpoint.cq;
        init.qp_type = type;
        init.cap = {4, 4, 2, 2, 256};
        init.pd = pd == nullptr ? endpoint.device.pd : pd;
        init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
        if (type == IBV_QPT_RC) {
            init.send_ops_flags |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                   IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                   IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_BIND_MW |
                                   IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV;
        }
        endpoint.qp = ibv_create_qp_ex(endpoint.device.context, &init);
        EXPECT_NE(endpoint.qp, nullptr);
        ibv_qp_attr attr = {};
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = 1;
        attr.qp_access_flags = kAllAccess;
        EXPECT_EQ(
            ibv_modify_qp(endpoint.qp, &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            0);
        return ibv_qp_to_qp_ex(endpoint.qp);
    }
    // By ibv_create_qp, and for this completion queue.
    static void replace_qp(Endpoint& endpoint, ibv_cq_ex* cq)
    {
        EXPECT_EQ(ibv_destroy_qp(endpoint.qp), 0);
        ibv_qp_init_attr init = {};
        init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
        init.qp_type = IBV_QPT_RC;
        init.cap = {4, 4, 1, 1, 0};
        endpoint.qp = ibv_create_qp(endpoint.device.pd, &init);
        EXPECT_NE(endpoint.qp, nullptr);
    }
    static void begin(ibv_qp_ex* qp, std::uint64_t id, unsigned flags = IBV_SEND_SIGNALED)
    {
        qp->wr_id = id;
        qp->wr_flags = flags;
    }

    Device device;
};

TEST_F(Extended, EveryOperationByItsFunction)
{
    Endpoint a(device), b(device);
    EXPECT_EQ(ibv_qp_to_qp_ex(a.qp), nullptr); // made without
    ibv_qp_ex* qp = replace_qp(a);
    ASSERT_NE(qp, nullptr);
    connect(a, b);
    const Address target = b.address();
    fill(a.buffer.data(), 4096, 1);
    auto* word = reinterpret_cast<std::uint64_t*>(b.buffer.data() + 8192);
    *word = 5;
    for (unsigned i = 0; i < 3; ++i) {
        ASSERT_EQ(b.post_receive(16384 + i * 4096, 4096, i), 0);
    }
    ibv_wr_start(qp);
    begin(qp, 1);
    ibv_wr_send_imm(qp, 77);
    const ibv_sge lists[] = {a.sge(0, 100), a.sge(100, 200)};
    ibv_wr_set_sge_list(qp, 2, lists);
    begin(qp, 2, 0);
    ibv_wr_rdma_write(qp, target.rkey, target.buffer);
    ibv_wr_set_sge(qp, a.mr->lkey, reinterpret_cast<std::uint64_t>(a.buffer.data()), 4096);
    begin(qp, 3);
    ibv_wr_send(qp);
    char text[] = "inline data, ", more[] = "of two buffers";
    const ibv_data_buf pieces[] = {{text, sizeof text - 1}, {more, sizeof more}};
    ibv_wr_set_inline_data_list(qp, 2, pieces);
    EXPECT_TRUE(b.is_idle()); // nothing is posted yet
    std::memset(text, 0, sizeof text);
    ASSERT_EQ(ibv_wr_complete(qp), 0);
    ibv_wc wc = a.next();
    EXPECT_EQ(wc.wr_id, 1u);
    EXPECT_EQ(a.next().wr_id, 3u);
    wc = b.next();
    EXPECT_EQ(wc.imm_data, 77u);
    EXPECT_EQ(wc.byte_len, 300u);
    EXPECT_TRUE(is_filled(b.buffer.data() + 16384, 300, 1));
    EXPECT_TRUE(is_filled(b.buffer.data(), 4096, 1));
    EXPECT_EQ(b.next().byte_len, 28u);
    EXPECT_STREQ(reinterpret_cast<const char*>(b.buffer.data()) + 20480,
                 "inline data, of two buffers");

    ibv_wr_start(qp);
    begin(qp, 4);
    ibv_wr_atomic_fetch_add(qp, target.rkey, target.buffer + 8192, 2);
    ibv_wr_set_sge(qp, a.mr->lkey, reinterpret_cast<std::uint64_t>(a.buffer.data()) + 8192, 8);
    begin(qp, 5);
    ibv_wr_atomic_cmp_swp(qp, target.rkey, target.buffer + 8192, 7, 9);
    ibv_wr_set_sge(qp, a.mr->lkey, reinterpret_cast<std::uint64_t>(a.buffer.data()) + 8200, 8);
    begin(qp, 6);
    ibv_wr_rdma_read(qp, target.rkey, target.buffer + 8192);
    ibv_wr_set_sge(qp, a.mr->lkey, reinterpret_cast<std::uint64_t>(a.buffer.data()) + 8208, 8);
    begin(qp, 7);
    ibv_wr_rdma_write_imm(qp, target.rkey, target.buffer + 8200, 88);
    std::uint64_t value = 42;
    ibv_wr_set_inline_data(qp, &value, sizeof value);
    ASSERT_EQ(ibv_wr_complete(qp), 0);
    for (unsigned id = 4; id <= 7; ++id) {
        wc = a.next();
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
        EXPECT_EQ(wc.wr_id, id);
    }
    const auto* results = reinterpret_cast<const std::uint64_t*>(a.buffer.data() + 8192);
    EXPECT_EQ(results[0], 5u);
    EXPECT_EQ(results[1], 7u);
    EXPECT_EQ(results[2], 9u);
    EXPECT_EQ(word[1], 42u);
    EXPECT_EQ(b.next().imm_data, 88u);

    ibv_mw* mw = ibv_alloc_mw(device.pd, IBV_MW_TYPE_2);
    ibv_mr* mr = ibv_reg_mr(device.pd, a.buffer.data(), 100, IBV_ACCESS_MW_BIND);
    const std::uint32_t key = ibv_inc_rkey(mw->rkey);
    const ibv_mw_bind_info info = {mr, reinterpret_cast<std::uint64_t>(a.buffer.data()), 100,
                                   IBV_ACCESS_REMOTE_READ};
    ibv_wr_start(qp);
    begin(qp, 8);
    ibv_wr_bind_mw(qp, mw, key, &info);
    begin(qp, 9);
    ibv_wr_local_inv(qp, key);
    begin(qp, 10);
    ibv_wr_send_inv(qp, 0x12345678); // no key of the peer's
    ASSERT_EQ(ibv_wr_complete(qp), 0);
    EXPECT_EQ(a.next().opcode, IBV_WC_BIND_MW);
    EXPECT_EQ(a.next().opcode, IBV_WC_LOCAL_INV);
    EXPECT_EQ(a.next().status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(ibv_dealloc_mw(mw), 0);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Extended, WorkRequestsArePostedTogetherOrNotAtAll)
{
    Endpoint a(device), b(device);
    ibv_qp_ex* qp = replace_qp(a);
    connect(a, b);
    for (unsigned i = 0; i < 4; ++i) {
        ASSERT_EQ(b.post_receive(0, 100), 0);
    }
    const ibv_sge lists[] = {a.sge(0, 8), a.sge(8, 8), a.sge(16, 8)};
    const auto send = [&](unsigned count) {
        begin(qp, count);
        ibv_wr_send(qp);
        ibv_wr_set_sge_list(qp, count, lists);
    };
    ibv_wr_start(qp);
    send(1);
    send(3); // too many
    EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
    ibv_wr_start(qp);
    for (unsigned i = 0; i < 5; ++i) { // more than the queue holds
        send(1);
    }
    EXPECT_EQ(ibv_wr_complete(qp), ENOMEM);
    ibv_wr_start(qp);
    send(1);
    ibv_wr_abort(qp);
    ibv_wr_start(qp);
    ibv_wr_set_sge_list(qp, 1, lists); // of no request
    EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
    ibv_wr_start(qp);
    EXPECT_EQ(ibv_wr_complete(qp), 0);
    EXPECT_TRUE(a.is_idle());
    EXPECT_TRUE(b.is_idle());
    ibv_wr_start(qp);
    for (unsigned i = 0; i < 4; ++i) {
        send(2);
    }
    EXPECT_EQ(ibv_wr_complete(qp), 0);
    for (unsigned i = 0; i < 4; ++i) {
        EXPECT_EQ(a.next().wr_id, 2u);
        EXPECT_EQ(b.next().byte_len, 16u);
    }
    ibv_qp_init_attr_ex init = {};
    init.send_cq = init.recv_cq = a.cq;
    init.qp_type = IBV_QPT_UD;
    init.pd = device.pd;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE; // not with datagrams
    EXPECT_EQ(ibv_create_qp_ex(device.context, &init), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(Extended, DatagramsByFunction)
{
    ibv_cq* cq = ibv_create_cq(device.context, 10, nullptr, nullptr, 0);
    ibv_qp_init_attr_ex init = {};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_UD;
    init.cap = {4, 4, 1, 1, 64};
    init.pd = device.pd;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.send_ops_flags = IBV_QP_EX_WITH_SEND;
    ibv_qp* base = ibv_create_qp_ex(device.context, &init);
    ASSERT_NE(base, nullptr);
    ibv_qp_attr attr = {};
    attr.port_num = 1;
    attr.qkey = 5;
    const int masks[] = {IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0, IBV_QP_SQ_PSN};
    for (int i = 0; i < 3; ++i) {
        attr.qp_state = static_cast<ibv_qp_state>(IBV_QPS_INIT + i);
        ASSERT_EQ(ibv_modify_qp(base, &attr, IBV_QP_STATE | masks[i]), 0);
    }
    unsigned char buffer[100] = {};
    ibv_mr* mr = ibv_reg_mr(device.pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
    ibv_sge list = {reinterpret_cast<std::uint64_t>(buffer), sizeof buffer, mr->lkey};
    ibv_recv_wr receive = {0, nullptr, &list, 1}, *bad;
    ASSERT_EQ(ibv_post_recv(base, &receive, &bad), 0);
    ibv_port_attr port;
    ASSERT_EQ(ibv_query_port(device.context, 1, &port), 0);
    ibv_ah_attr address = {};
    address.dlid = port.lid;
    address.port_num = 1;
    ibv_ah* ah = ibv_create_ah(device.pd, &address);
    ibv_qp_ex* qp = ibv_qp_to_qp_ex(base);
    ibv_wr_start(qp);
    begin(qp, 1);
    ibv_wr_send(qp);
    ibv_wr_set_ud_addr(qp, ah, base->qp_num, 5);
    unsigned char data[20];
    fill(data, sizeof data, 1);
    ibv_wr_set_inline_data(qp, data, sizeof data);
    ASSERT_EQ(ibv_wr_complete(qp), 0);
    ibv_wc wc[2];
    ASSERT_EQ(ibv_poll_cq(cq, 2, wc), 2);
    EXPECT_TRUE(is_filled(buffer + 40, sizeof data, 1));
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
    EXPECT_EQ(ibv_destroy_qp(base), 0);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(Extended, CompletionsAreReadOneByOne)
{
    ibv_cq_init_attr_ex init = {};
    init.cqe = 16;
    init.cq_context = this;
    init.wc_flags = IBV_WC_STANDARD_FLAGS;
    init.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    init.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    ibv_cq_ex* cq = ibv_create_cq_ex(device.context, &init);
    ASSERT_NE(cq, nullptr);
    EXPECT_EQ(cq->cq_context, this);
    {
        Endpoint a(device), b(device);
        replace_qp(b, cq);
        ibv_qp_attr attr = {};
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = 1;
        ASSERT_EQ(
            ibv_modify_qp(b.qp, &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            0);
        connect(a, b);
        ibv_poll_cq_attr poll = {};
        EXPECT_EQ(ibv_start_poll(cq, &poll), ENOENT);
        EXPECT_EQ(ibv_start_poll(cq, &poll), ENOENT); // and holds nothing meanwhile
        for (unsigned i = 0; i < 3; ++i) {
            ASSERT_EQ(b.post_receive(i * 100, 100, 10 + i), 0);
        }
        ibv_send_wr wr = {};
        ibv_sge list = a.sge(0, 30);
        wr.sg_list = &list;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_SEND_WITH_IMM;
        wr.imm_data = 99;
        for (unsigned i = 0; i < 3; ++i) {
            ASSERT_EQ(a.post(wr), 0);
        }
        ASSERT_EQ(ibv_start_poll(cq, &poll), 0);
        for (unsigned i = 0; i < 3; ++i) {
            EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
            EXPECT_EQ(cq->wr_id, 10 + i);
            EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
            EXPECT_EQ(ibv_wc_read_byte_len(cq), 30u);
            EXPECT_EQ(ibv_wc_read_imm_data(cq), 99u);
            EXPECT_EQ(ibv_wc_read_wc_flags(cq), unsigned{IBV_WC_WITH_IMM});
            EXPECT_EQ(ibv_wc_read_qp_num(cq), b.qp->qp_num);
            EXPECT_EQ(ibv_wc_read_vendor_err(cq), 0u);
            EXPECT_EQ(ibv_wc_read_src_qp(cq), 0u);
            EXPECT_EQ(ibv_wc_read_slid(cq), 0u);
            EXPECT_EQ(ibv_wc_read_sl(cq), 0);
            EXPECT_EQ(ibv_wc_read_dlid_path_bits(cq), 0);
            EXPECT_EQ(ibv_next_poll(cq), i < 2 ? 0 : ENOENT);
        }
        ibv_end_poll(cq);
        poll.comp_mask = 1;
        EXPECT_EQ(ibv_start_poll(cq, &poll), EINVAL);
        replace_qp(b, cq); // for the endpoint to destroy
    }
    EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    const auto refused = [&](int error) {
        errno = 0;
        return ibv_create_cq_ex(device.context, &init) == nullptr && errno == error;
    };
    init.cqe = 0xffffffff;
    EXPECT_TRUE(refused(EINVAL));
    init.cqe = 16;
    init.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    EXPECT_TRUE(refused(EOPNOTSUPP));
    init.flags = 0;
    init.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    init.parent_domain = device.pd; // is none
    EXPECT_TRUE(refused(EINVAL));
}

TEST_F(Extended, ParentDomainsStandForTheirProtectionDomain)
{
    ibv_td_init_attr td_init = {};
    ibv_td* td = ibv_alloc_td(device.context, &td_init);
    ASSERT_NE(td, nullptr);
    ibv_parent_domain_init_attr init = {};
    init.pd = device.pd;
    init.td = td;
    init.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    ibv_pd* parent = ibv_alloc_parent_domain(device.context, &init);
    ASSERT_NE(parent, nullptr);
    EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
    EXPECT_EQ(ibv_dealloc_pd(device.pd), EBUSY);
    ibv_cq_init_attr_ex cq_init = {};
    cq_init.cqe = 16;
    cq_init.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    cq_init.parent_domain = parent;
    ibv_cq_ex* cq = ibv_create_cq_ex(device.context, &cq_init);
    ASSERT_NE(cq, nullptr);
    EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
    {
        Endpoint a(device), b(device);
        replace_qp(b, IBV_QPT_RC, parent);
        connect(a, b);
        const Address target = b.address(); // registered in the protection domain
        ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE, 0, 8, target.buffer, target.rkey), 0);
        EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
        ibv_mr* mr = ibv_reg_mr(parent, b.buffer.data(), 100, kAllAccess);
        ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE, 0, 8, target.buffer, mr->rkey), 0);
        EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
        EXPECT_EQ(ibv_dereg_mr(mr), 0);
    }
    EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    init.pd = parent; // not another parent domain's
    EXPECT_EQ(ibv_alloc_parent_domain(device.context, &init), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(ibv_dealloc_pd(parent), 0);
    EXPECT_EQ(ibv_dealloc_td(td), 0);
}

// As libraries do that take no locks then, but where it is seen.
TEST_F(Extended, TwoThreadsAtOnceEndTheProgram)
{
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    ibv_td_init_attr td_init = {};
    ibv_td* td = ibv_alloc_td(device.context, &td_init);
    ibv_parent_domain_init_attr init = {};
    init.pd = device.pd;
    init.td = td;
    ibv_pd* parent = ibv_alloc_parent_domain(device.context, &init);
    ASSERT_NE(parent, nullptr);
    ibv_cq_init_attr_ex cq_init = {};
    cq_init.cqe = 16;
    cq_init.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    cq_init.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    const struct softhca_counters before = counters();
    ibv_cq_ex* cq = ibv_create_cq_ex(device.context, &cq_init);
    {
        Endpoint a(device), b(device);
        ibv_qp_ex* qp = replace_qp(a, IBV_QPT_RC, parent);
        connect(a, b);
        EXPECT_EQ(counters().thread_domain_queues, before.thread_domain_queues + 1);
        EXPECT_EQ(counters().single_threaded_cqs, before.single_threaded_cqs + 1);
        ASSERT_EQ(b.post_receive(0, 100), 0);
        ibv_wr_start(qp);
        EXPECT_DEATH(a.post_send(0, 8), "two threads use a QP at once");
        EXPECT_DEATH(ibv_destroy_qp(a.qp), "two threads use a QP at once");
        begin(qp, 1);
        ibv_wr_send(qp);
        const ibv_sge sge = a.sge(0, 8);
        ibv_wr_set_sge_list(qp, 1, &sge);
        ASSERT_EQ(ibv_wr_complete(qp), 0);
        EXPECT_EQ(counters().batches, before.batches + 1);
        EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);

        replace_qp(b, cq);
        ASSERT_EQ(b.to_error(), 0);
        ASSERT_EQ(b.post_receive(0, 100), 0); // is flushed
        ibv_poll_cq_attr poll = {};
        ASSERT_EQ(ibv_start_poll(cq, &poll), 0);
        ibv_wc wc;
        EXPECT_DEATH(ibv_poll_cq(ibv_cq_ex_to_cq(cq), 1, &wc), "two threads use a CQ at once");
        EXPECT_DEATH(ibv_req_notify_cq(ibv_cq_ex_to_cq(cq), 0), "two threads use a CQ at once");
        EXPECT_DEATH(ibv_destroy_qp(b.qp), "two threads use a CQ at once");
        ibv_end_poll(cq);
        EXPECT_EQ(counters().extended_completions, before.extended_completions + 1);
        replace_qp(b, cq); // for the endpoint to destroy
    }
    EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    EXPECT_EQ(ibv_dealloc_pd(parent), 0);
    EXPECT_EQ(ibv_dealloc_td(td), 0);
}

// SOFTHCA_EXTENDED=none
TEST_F(Extended, DISABLED_NothingIsOffered)
{
    ibv_td_init_attr td_init = {};
    EXPECT_EQ(ibv_alloc_td(device.context, &td_init), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    ibv_parent_domain_init_attr parent = {};
    parent.pd = device.pd;
    errno = 0;
    EXPECT_EQ(ibv_alloc_parent_domain(device.context, &parent), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    ibv_cq_init_attr_ex cq = {};
    cq.cqe = 16;
    errno = 0;
    EXPECT_EQ(ibv_create_cq_ex(device.context, &cq), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    Endpoint a(device);
    ibv_qp_init_attr_ex qp = {};
    qp.send_cq = qp.recv_cq = a.cq;
    qp.qp_type = IBV_QPT_RC;
    qp.pd = device.pd;
    qp.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    qp.send_ops_flags = IBV_QP_EX_WITH_SEND;
    errno = 0;
    EXPECT_EQ(ibv_create_qp_ex(device.context, &qp), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(Extended, NothingIsOffered)
{
    EXPECT_TRUE(run_tests("Extended.DISABLED_NothingIsOffered", {"SOFTHCA_EXTENDED=none"}));
}

TEST_F(Extended, PkeyTableHasTheDefaultPartition)
{
    __be16 pkey = 0;
    ASSERT_EQ(ibv_query_pkey(device.context, 1, 0, &pkey), 0);
    EXPECT_EQ(pkey, 0xffff);
    EXPECT_EQ(ibv_get_pkey_index(device.context, 1, pkey), 0);
    EXPECT_EQ(ibv_get_pkey_index(device.context, 1, 0x1234), -1);
    EXPECT_EQ(ibv_query_pkey(device.context, 1, 1, &pkey), -1);
    EXPECT_EQ(ibv_query_pkey(device.context, 2, 0, &pkey), -1);
    ibv_port_attr port;
    ASSERT_EQ(ibv_query_port(device.context, 1, &port), 0);
    EXPECT_EQ(port.pkey_tbl_len, 1);
    EXPECT_EQ(port.active_mtu, IBV_MTU_4096);
    EXPECT_EQ(ibv_query_port(device.context, 2, &port), EINVAL);
}

TEST_F(Extended, GidTableNeedsRoom)
{
    ibv_gid_entry entries[4];
    EXPECT_EQ(ibv_query_gid_table(device.context, entries, 0, 0), -EINVAL);
    EXPECT_EQ(ibv_query_gid_table(device.context, entries, 4, 0), 1);
    EXPECT_EQ(entries[0].gid_type, unsigned{IBV_GID_TYPE_IB});
    EXPECT_EQ(ibv_query_gid_table(device.context, entries, 4, 1), -EINVAL); // no such flag
}

} // namespace
