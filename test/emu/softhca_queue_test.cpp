// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Shared receive queues, completion channels, devices and ports, and everything that the device
// does not offer.
#include "softhca_fixture.hpp"

#include <cstring>

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

bool has_event(int fd)
{
    pollfd descriptor = {fd, POLLIN, 0};
    return poll(&descriptor, 1, 50) == 1;
}

class Queues : public ::testing::Test {
  protected:
    Device device;
};

TEST_F(Queues, SrqHoldsWhatWasAskedForAndTellsItsLimit)
{
    ibv_srq_init_attr init = {};
    init.attr = {10, 2, 0};
    ibv_srq* srq = ibv_create_srq(device.pd, &init);
    ASSERT_NE(srq, nullptr);
    ibv_srq_attr attr = {};
    ASSERT_EQ(ibv_query_srq(srq, &attr), 0);
    EXPECT_EQ(attr.max_wr, 10u);
    EXPECT_EQ(attr.max_sge, 2u);
    {
        Options options;
        options.srq = srq;
        Endpoint a(device), b(device, options);
        connect(a, b);
        for (unsigned i = 0; i < 10; ++i) {
            ASSERT_EQ(b.post_receive(0, 100, i), 0);
        }
        EXPECT_EQ(b.post_receive(0, 100), ENOMEM);
        attr.srq_limit = 9;
        ASSERT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
        ASSERT_EQ(a.post_send(0, 8), 0); // nine left
        EXPECT_FALSE(has_event(device.context->async_fd));
        ASSERT_EQ(a.post_send(0, 8), 0); // eight
        EXPECT_EQ(next_event(device.context), IBV_EVENT_SRQ_LIMIT_REACHED);
        ASSERT_EQ(a.post_send(0, 8), 0); // disarmed
        EXPECT_FALSE(has_event(device.context->async_fd));
        ASSERT_EQ(ibv_query_srq(srq, &attr), 0);
        EXPECT_EQ(attr.srq_limit, 0u);
        EXPECT_EQ(ibv_destroy_srq(srq), EBUSY);
        ASSERT_EQ(b.to_error(), 0);
        EXPECT_EQ(next_event(device.context), IBV_EVENT_QP_LAST_WQE_REACHED);
        for (unsigned i = 0; i < 3; ++i) {
            EXPECT_EQ(b.next().status, IBV_WC_SUCCESS);
        }
        EXPECT_TRUE(b.is_idle()); // the rest stays in the SRQ
    }
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(Queues, SrqWorkRequestsComeBackFromADestroyedQueuePair)
{
    ibv_srq_init_attr init = {};
    init.attr = {4, 1, 0};
    ibv_srq* srq = ibv_create_srq(device.pd, &init);
    Options options;
    options.srq = srq;
    for (unsigned round = 0; round < 5; ++round) {
        Endpoint a(device), b(device, options);
        connect(a, b);
        for (unsigned i = 0; i < 4; ++i) {
            ASSERT_EQ(b.post_receive(0, 20000, i), 0);
            ASSERT_EQ(a.post_send(0, i % 2 == 0 ? 8 : 5000), 0);
        }
        EXPECT_EQ(b.post_receive(0, 100), ENOMEM); // none has been polled
    }
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(Queues, WaitingPeersOfAnSrqAreAllServed)
{
    ibv_srq_init_attr init = {};
    init.attr = {16, 1, 0};
    ibv_srq* srq = ibv_create_srq(device.pd, &init);
    {
        Options options;
        options.srq = srq;
        Endpoint a(device), b(device), to_a(device, options), to_b(device, options);
        connect(a, to_a);
        connect(b, to_b);
        ASSERT_EQ(a.post_send(0, 8), 0);
        ASSERT_EQ(b.post_send(0, 8), 0);
        EXPECT_TRUE(a.is_idle() && b.is_idle());
        ASSERT_EQ(to_a.post_receive(0, 8), 0);
        ASSERT_EQ(to_a.post_receive(0, 8), 0);
        EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
        EXPECT_EQ(b.next().status, IBV_WC_SUCCESS);
        EXPECT_EQ(to_a.next().status, IBV_WC_SUCCESS);
        EXPECT_EQ(to_b.next().status, IBV_WC_SUCCESS);
    }
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(Queues, NotificationComesOnceAndForWhatIsThereAlready)
{
    ibv_comp_channel* channel = ibv_create_comp_channel(device.context);
    ASSERT_NE(channel, nullptr);
    {
        Options options;
        options.channel = channel;
        Endpoint a(device), b(device, options);
        connect(a, b);
        for (unsigned i = 0; i < 8; ++i) {
            ASSERT_EQ(b.post_receive(0, 100), 0);
        }
        ibv_cq* cq;
        void* context;
        ASSERT_EQ(a.post_send(0, 8), 0);
        EXPECT_FALSE(has_event(channel->fd)); // not armed
        ASSERT_EQ(ibv_req_notify_cq(b.cq, 0), 0);
        ASSERT_TRUE(has_event(channel->fd)); // there is an entry
        ASSERT_EQ(ibv_get_cq_event(channel, &cq, &context), 0);
        EXPECT_EQ(cq, b.cq);
        EXPECT_EQ(context, &b);
        b.next();
        ASSERT_EQ(a.post_send(0, 8), 0);
        EXPECT_FALSE(has_event(channel->fd));
        b.next();
        ASSERT_EQ(ibv_req_notify_cq(b.cq, 1), 0);
        ASSERT_EQ(a.post_send(0, 8), 0);
        EXPECT_FALSE(has_event(channel->fd)); // not solicited
        ASSERT_EQ(a.post_send(0, 8, 0, IBV_SEND_SOLICITED), 0);
        EXPECT_TRUE(has_event(channel->fd));
        ASSERT_EQ(ibv_get_cq_event(channel, &cq, &context), 0);
        ASSERT_EQ(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
        EXPECT_EQ(ibv_get_cq_event(channel, &cq, &context), -1);
        EXPECT_EQ(errno, EAGAIN);
        ibv_ack_cq_events(b.cq, 2);
    }
    EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST(DISABLED_Configured, TwoDevicesOnInfiniBand)
{
    Device first(0), second(1);
    ibv_port_attr one, two;
    ASSERT_EQ(ibv_query_port(first.context, 1, &one), 0);
    ASSERT_EQ(ibv_query_port(second.context, 1, &two), 0);
    EXPECT_NE(one.lid, two.lid);
    EXPECT_STREQ(second.context->device->name, "softhca1");
    Endpoint a(first), b(second);
    EXPECT_NE(a.address().gid.global.interface_id, b.address().gid.global.interface_id);
    connect(a, b);
    ASSERT_EQ(b.post_receive(0, 8), 0);
    ASSERT_EQ(a.post_send(0, 8), 0);
    EXPECT_EQ(b.next().status, IBV_WC_SUCCESS);
    // The LID of another port does not lead there.
    Endpoint c(first), d(second);
    Address wrong = d.address();
    wrong.lid = one.lid;
    c.options.retry_count = 0;
    c.connect(wrong);
    d.connect(c.address());
    ASSERT_EQ(d.post_receive(0, 8), 0);
    ASSERT_EQ(c.post_send(0, 8), 0);
    EXPECT_EQ(c.next().status, IBV_WC_RETRY_EXC_ERR);
}

TEST(Queues_, DevicesByEnvironment)
{
    EXPECT_TRUE(run_tests("DISABLED_Configured.TwoDevicesOnInfiniBand", {"SOFTHCA_DEVICES=2"}));
}

TEST(Queues_, BadSettingsAreNamed)
{
    const char* bad[] = {"SOFTHCA_DEVICES=9",
                         "SOFTHCA_DEVICES=x",
                         "SOFTHCA_LINK_LAYER=token-ring",
                         "SOFTHCA_GPU_DIRECT=dmabuf,magic",
                         "SOFTHCA_MEMLOCK=maybe",
                         "SOFTHCA_FABRIC=a/b"};
    for (const char* setting : bad) {
        const std::string command = std::string(setting) + " ibv_devinfo 2>&1 >/dev/null";
        FILE* output = popen(command.c_str(), "r");
        char line[512] = {}, more[512];
        ASSERT_NE(fgets(line, sizeof line, output), nullptr) << setting;
        EXPECT_NE(std::string(line).find(setting), std::string::npos) << line;
        EXPECT_EQ(fgets(more, sizeof more, output), nullptr) << more;
        EXPECT_EQ(pclose(output), 0);
    }
}

TEST_F(Queues, DeviceNodesLookAsTheyShould)
{
    struct stat status;
    ASSERT_EQ(stat("/dev/infiniband/softhca0", &status), 0);
    EXPECT_TRUE(S_ISCHR(status.st_mode));
    EXPECT_EQ(access("/dev/infiniband/softhca0", R_OK | W_OK), 0);
    EXPECT_NE(stat("/dev/infiniband/softhca1", &status), 0);
    EXPECT_NE(access("/dev/infiniband/softhca1", F_OK), 0);
    EXPECT_EQ(stat("/", &status), 0);
    EXPECT_EQ(access("/", R_OK), 0);
}

// None of these crashes, and each says that it is not offered.
TEST_F(Queues, WhatIsNotOfferedIsRefused)
{
    Endpoint a(device);
    ibv_context* context = device.context;
    const auto refused = [](const void* object) {
        const bool result = object == nullptr && errno == EOPNOTSUPP;
        errno = 0;
        return result;
    };
    errno = 0;
    ibv_cq_init_attr_ex cq_ex = {};
    cq_ex.cqe = 1;
    cq_ex.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
    EXPECT_TRUE(refused(ibv_create_cq_ex(context, &cq_ex)));
    ibv_srq_init_attr_ex srq_ex = {};
    srq_ex.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
    srq_ex.srq_type = IBV_SRQT_XRC;
    EXPECT_TRUE(refused(ibv_create_srq_ex(context, &srq_ex)));
    ibv_qp_init_attr_ex qp_ex = {};
    qp_ex.qp_type = IBV_QPT_RC;
    qp_ex.send_cq = qp_ex.recv_cq = a.cq;
    qp_ex.pd = device.pd;
    qp_ex.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    qp_ex.send_ops_flags = IBV_QP_EX_WITH_TSO;
    EXPECT_TRUE(refused(ibv_create_qp_ex(context, &qp_ex)));
    ibv_xrcd_init_attr xrcd = {};
    EXPECT_TRUE(refused(ibv_open_xrcd(context, &xrcd)));
    ibv_alloc_dm_attr dm = {};
    dm.length = 8;
    EXPECT_TRUE(refused(ibv_alloc_dm(context, &dm)));
    EXPECT_TRUE(refused(ibv_alloc_null_mr(device.pd)));
    ibv_parent_domain_init_attr parent = {};
    parent.pd = device.pd;
    parent.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
    EXPECT_TRUE(refused(ibv_alloc_parent_domain(context, &parent)));
    ibv_counters_init_attr counter = {};
    EXPECT_TRUE(refused(ibv_create_counters(context, &counter)));
    ibv_wq_init_attr wq = {};
    EXPECT_TRUE(refused(ibv_create_wq(context, &wq)));
    ibv_rwq_ind_table_init_attr table = {};
    EXPECT_TRUE(refused(ibv_create_rwq_ind_table(context, &table)));
    ibv_flow_attr flow = {};
    EXPECT_TRUE(refused(ibv_create_flow(a.qp, &flow)));
    ibv_flow_action_esp_attr esp = {};
    EXPECT_TRUE(refused(ibv_create_flow_action_esp(context, &esp)));
    ibv_qp_open_attr open = {};
    EXPECT_TRUE(refused(ibv_open_qp(context, &open)));
    EXPECT_TRUE(refused(ibv_import_device(0)));
    EXPECT_TRUE(refused(ibv_import_pd(context, 1)));
    EXPECT_TRUE(refused(ibv_import_mr(device.pd, 1)));
    EXPECT_TRUE(refused(ibv_import_dm(context, 1)));
    ibv_qp_init_attr raw = {};
    raw.qp_type = IBV_QPT_RAW_PACKET;
    raw.send_cq = raw.recv_cq = a.cq;
    EXPECT_TRUE(refused(ibv_create_qp(device.pd, &raw)));
    ibv_modify_cq_attr moderation = {};
    EXPECT_EQ(ibv_modify_cq(a.cq, &moderation), EOPNOTSUPP);
    ibv_qp_rate_limit_attr rate = {};
    EXPECT_EQ(ibv_modify_qp_rate_limit(a.qp, &rate), EOPNOTSUPP);
    ibv_sge range = {};
    EXPECT_EQ(ibv_advise_mr(device.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &range, 1), EOPNOTSUPP);
    ibv_values_ex values = {};
    EXPECT_EQ(ibv_query_rt_values_ex(context, &values), EOPNOTSUPP);
    ibv_ece ece = {};
    EXPECT_EQ(ibv_query_ece(a.qp, &ece), EOPNOTSUPP);
    EXPECT_EQ(ibv_set_ece(a.qp, &ece), EOPNOTSUPP);
    EXPECT_EQ(ibv_query_qp_data_in_order(a.qp, IBV_WR_SEND, 0), 0);
    ibv_srq_attr srq_attr = {};
    ibv_srq_init_attr srq_init = {};
    srq_init.attr = {1, 1, 0};
    ibv_srq* srq = ibv_create_srq(device.pd, &srq_init);
    EXPECT_EQ(ibv_modify_srq(srq, &srq_attr, IBV_SRQ_MAX_WR), EOPNOTSUPP);
    ibv_ops_wr *bad_op, op = {};
    EXPECT_EQ(ibv_post_srq_ops(srq, &op, &bad_op), EOPNOTSUPP);
    std::uint32_t number;
    EXPECT_EQ(ibv_get_srq_num(srq, &number), EOPNOTSUPP);
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
    EXPECT_EQ(ibv_fork_init(), 0);
}

} // namespace
