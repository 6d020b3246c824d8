// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The state machine of queue pairs: attribute masks, limits, a drained send queue, errors of
// datagrams.
#include "softhca_fixture.hpp"

#include <cstring>

#include <poll.h>

namespace {

// What InfiniBand lets a transition have, besides IBV_QP_STATE.
struct Transition {
    ibv_qp_state to;
    int required, optional;
};

constexpr int kInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT;
constexpr int kRtr = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRts =
    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
constexpr int kRunning = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER;
constexpr int kDrained = kRunning | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT |
                         IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
                         IBV_QP_MAX_DEST_RD_ATOMIC;

// A walk through all states; each step begins where the one before ended.
constexpr Transition kRcWalk[] = {
    {IBV_QPS_INIT, kInit | IBV_QP_ACCESS_FLAGS, 0},
    {IBV_QPS_INIT, 0, kInit | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_RTR, kRtr, IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_RTS, kRts, kRunning},
    {IBV_QPS_RTS, 0, kRunning},
    {IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, 0, kDrained},
    {IBV_QPS_RTS, 0, kRunning},
    {IBV_QPS_ERR, 0, IBV_QP_CUR_STATE},
    {IBV_QPS_RESET, 0, IBV_QP_CUR_STATE},
};
constexpr Transition kUdWalk[] = {
    {IBV_QPS_INIT, kInit | IBV_QP_QKEY, 0},
    {IBV_QPS_INIT, 0, kInit | IBV_QP_QKEY},
    {IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {IBV_QPS_ERR, 0, IBV_QP_CUR_STATE},
    {IBV_QPS_RESET, 0, IBV_QP_CUR_STATE},
};

class QueuePairs : public ::testing::Test {
  protected:
    QueuePairs() : cq(ibv_create_cq(device.context, 100, nullptr, nullptr, 0)) {}
    ~QueuePairs() override { EXPECT_EQ(ibv_destroy_cq(cq), 0); }

    ibv_qp* create(ibv_qp_type type)
    {
        ibv_qp_init_attr init = {};
        init.send_cq = init.recv_cq = cq;
        init.qp_type = type;
        init.cap = {8, 8, 2, 2, 64};
        return ibv_create_qp(device.pd, &init);
    }
    // Attributes that are valid for every transition.
    ibv_qp_attr valid(ibv_qp_state from, ibv_qp_state to)
    {
        ibv_port_attr port;
        EXPECT_EQ(ibv_query_port(device.context, 1, &port), 0);
        ibv_qp_attr attr = {};
        attr.qp_state = to;
        attr.cur_qp_state = from;
        attr.port_num = attr.ah_attr.port_num = 1;
        attr.ah_attr.dlid = port.lid;
        attr.path_mtu = IBV_MTU_1024;
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1;
        return attr;
    }
    static ibv_qp_state state(ibv_qp* qp)
    {
        ibv_qp_attr attr;
        ibv_qp_init_attr init;
        EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
        return attr.qp_state;
    }
    template <std::size_t Steps>
    void walk(ibv_qp_type type, const Transition (&steps)[Steps])
    {
        ibv_qp* qp = create(type);
        ASSERT_NE(qp, nullptr);
        for (const Transition& step : steps) {
            const ibv_qp_state from = state(qp);
            ibv_qp_attr attr = valid(from, step.to);
            const auto modify = [&](int mask) {
                return ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE);
            };
            for (int bit = IBV_QP_CUR_STATE; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
                const int described = step.required | step.optional;
                if ((step.required & bit) != 0) {
                    EXPECT_EQ(modify(described & ~bit), EINVAL)
                        << from << " " << step.to << " " << bit;
                } else if ((step.optional & bit) == 0) {
                    EXPECT_EQ(modify(step.required | bit), EINVAL)
                        << from << " " << step.to << " " << bit;
                }
            }
            EXPECT_EQ(state(qp), from);
            ASSERT_EQ(modify(step.required), 0) << from << " " << step.to;
            EXPECT_EQ(state(qp), step.to);
            if (step.to == from && step.optional != 0) {
                EXPECT_EQ(modify(step.required | step.optional), 0) << from << " " << step.to;
            }
        }
        EXPECT_EQ(ibv_destroy_qp(qp), 0);
    }

    Device device;
    ibv_cq* cq;
};

TEST_F(QueuePairs, TransitionsRequireAndAllowWhatInfiniBandSays)
{
    walk(IBV_QPT_RC, kRcWalk);
    walk(IBV_QPT_UD, kUdWalk);
}

TEST_F(QueuePairs, StatesCannotBeSkipped)
{
    const struct {
        ibv_qp_state from, to;
        int mask;
    } skips[] = {{IBV_QPS_RESET, IBV_QPS_RTR, kRtr},
                 {IBV_QPS_RESET, IBV_QPS_RTS, kRts},
                 {IBV_QPS_INIT, IBV_QPS_RTS, kRts},
                 {IBV_QPS_INIT, IBV_QPS_SQD, 0},
                 {IBV_QPS_RTR, IBV_QPS_INIT, kInit | IBV_QP_ACCESS_FLAGS},
                 {IBV_QPS_RTR, IBV_QPS_SQD, 0},
                 {IBV_QPS_RTS, IBV_QPS_RTR, kRtr},
                 {IBV_QPS_RTS, IBV_QPS_SQE, 0},
                 {IBV_QPS_SQD, IBV_QPS_RTR, kRtr},
                 {IBV_QPS_ERR, IBV_QPS_RTS, kRts},
                 {IBV_QPS_ERR, IBV_QPS_INIT, kInit | IBV_QP_ACCESS_FLAGS}};
    for (const auto& skip : skips) {
        ibv_qp* qp = create(IBV_QPT_RC);
        for (const Transition& step : kRcWalk) {
            if (state(qp) == skip.from) {
                break;
            }
            ibv_qp_attr attr = valid(state(qp), step.to);
            ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | step.required), 0);
        }
        ASSERT_EQ(state(qp), skip.from);
        ibv_qp_attr attr = valid(skip.from, skip.to);
        EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | skip.mask), EINVAL)
            << skip.from << " " << skip.to;
        EXPECT_EQ(state(qp), skip.from);
        EXPECT_EQ(ibv_destroy_qp(qp), 0);
    }
}

TEST_F(QueuePairs, AttributesHaveLimits)
{
    const auto refused = [this](ibv_qp_state to, int mask,
                                const std::function<void(ibv_qp_attr&)>& spoil) {
        ibv_qp* qp = create(IBV_QPT_RC);
        for (const Transition& step : kRcWalk) {
            ibv_qp_attr attr = valid(state(qp), step.to);
            const bool last = step.to == to;
            if (last) {
                spoil(attr);
            }
            const int result =
                ibv_modify_qp(qp, &attr, IBV_QP_STATE | step.required | (last ? mask : 0));
            if (last) {
                EXPECT_EQ(ibv_destroy_qp(qp), 0);
                return result == EINVAL;
            }
            EXPECT_EQ(result, 0);
        }
        return false;
    };
    EXPECT_TRUE(refused(IBV_QPS_INIT, 0, [](ibv_qp_attr& attr) { attr.port_num = 2; }));
    EXPECT_TRUE(refused(IBV_QPS_INIT, 0, [](ibv_qp_attr& attr) { attr.pkey_index = 1; }));
    const auto to_rtr = [&](auto spoil) { return refused(IBV_QPS_RTR, 0, spoil); };
    EXPECT_FALSE(to_rtr([](ibv_qp_attr&) {}));
    EXPECT_FALSE(to_rtr([](ibv_qp_attr& attr) { attr.max_dest_rd_atomic = 16; }));
    EXPECT_TRUE(to_rtr([](ibv_qp_attr& attr) { attr.max_dest_rd_atomic = 17; }));
    EXPECT_TRUE(to_rtr([](ibv_qp_attr& attr) { attr.min_rnr_timer = 32; }));
    EXPECT_TRUE(to_rtr([](ibv_qp_attr& attr) { attr.path_mtu = static_cast<ibv_mtu>(0); }));
    EXPECT_TRUE(to_rtr([](ibv_qp_attr& attr) { attr.path_mtu = static_cast<ibv_mtu>(6); }));
    EXPECT_TRUE(to_rtr([](ibv_qp_attr& attr) { attr.ah_attr.port_num = 2; }));
    EXPECT_TRUE(to_rtr([](ibv_qp_attr& attr) {
        attr.ah_attr.is_global = 1;
        attr.ah_attr.grh.sgid_index = 200;
    }));
    const auto to_rts = [&](auto spoil) { return refused(IBV_QPS_RTS, IBV_QP_CUR_STATE, spoil); };
    EXPECT_FALSE(to_rts([](ibv_qp_attr&) {}));
    EXPECT_TRUE(to_rts([](ibv_qp_attr& attr) { attr.max_rd_atomic = 17; }));
    EXPECT_TRUE(to_rts([](ibv_qp_attr& attr) { attr.timeout = 32; }));
    EXPECT_TRUE(to_rts([](ibv_qp_attr& attr) { attr.retry_cnt = 8; }));
    EXPECT_TRUE(to_rts([](ibv_qp_attr& attr) { attr.rnr_retry = 8; }));
    EXPECT_TRUE(to_rts([](ibv_qp_attr& attr) { attr.cur_qp_state = IBV_QPS_INIT; }));
}

TEST_F(QueuePairs, ReadsAndAtomicsNeedResources)
{
    for (bool atomic : {false, true}) {
        for (bool requester : {true, false}) {
            Endpoint a(device), b(device);
            (requester ? a : b).options.rd_atomic = 0;
            connect(a, b);
            const Address target = b.address();
            ASSERT_EQ(atomic ? a.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, target.buffer,
                                             target.rkey, 1)
                             : a.post_rdma(IBV_WR_RDMA_READ, 0, 8, target.buffer, target.rkey),
                      0);
            EXPECT_EQ(a.next().status, requester ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_REM_INV_REQ_ERR);
            EXPECT_EQ(b.state(), requester ? IBV_QPS_RTS : IBV_QPS_ERR);
        }
    }
    ibv_device_attr attr;
    ASSERT_EQ(ibv_query_device(device.context, &attr), 0);
    EXPECT_EQ(attr.max_qp_rd_atom, 16);
    EXPECT_EQ(attr.atomic_cap, IBV_ATOMIC_HCA); // atomic among HCAs, not with the CPU
}

TEST_F(QueuePairs, DrainedSendQueueWaits)
{
    Endpoint a(device), b(device);
    connect(a, b);
    ASSERT_EQ(b.post_receive(0, 100, 1), 0);
    ASSERT_EQ(b.post_receive(0, 100, 2), 0);
    ASSERT_EQ(a.post_send(0, 8, 1), 0);
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_SQD;
    attr.en_sqd_async_notify = 1;
    ASSERT_EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
    EXPECT_EQ(next_event(device.context), IBV_EVENT_SQ_DRAINED);
    EXPECT_EQ(a.next().wr_id, 1u);
    EXPECT_EQ(b.next().wr_id, 1u);
    ASSERT_EQ(a.post_send(0, 8, 2), 0);
    ASSERT_EQ(b.post_send(0, 8, 9), 0); // the receive queue goes on working
    ASSERT_EQ(a.post_receive(100, 8, 9), 0);
    EXPECT_EQ(a.next().wr_id, 9u);
    EXPECT_EQ(b.next().wr_id, 9u);
    EXPECT_TRUE(b.is_idle());
    attr.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
    EXPECT_EQ(a.next().wr_id, 2u);
    EXPECT_EQ(b.next().wr_id, 2u);
    attr.qp_state = IBV_QPS_SQD;
    ASSERT_EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
    pollfd descriptor = {device.context->async_fd, POLLIN, 0};
    EXPECT_EQ(poll(&descriptor, 1, 50), 0); // not asked for
}

} // namespace
