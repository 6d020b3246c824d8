// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A queue pair of datagrams, for the tests of softhca.
#pragma once

#include "softhca_fixture.hpp"

// A UD queue pair with a buffer.
class Datagrams {
  public:
    explicit Datagrams(Device& owner, std::uint32_t qkey = 0x11) : device(owner), buffer(65536)
    {
        mr = ibv_reg_mr(device.pd, buffer.data(), buffer.size(), IBV_ACCESS_LOCAL_WRITE);
        cq = ibv_create_cq(device.context, 100, nullptr, nullptr, 0);
        ibv_qp_init_attr init = {};
        init.send_cq = init.recv_cq = cq;
        init.qp_type = IBV_QPT_UD;
        init.cap = {16, 16, 2, 2, 64};
        qp = ibv_create_qp(device.pd, &init);
        ibv_qp_attr attr = {};
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = 1;
        attr.qkey = qkey;
        EXPECT_EQ(
            ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
            0);
        attr.qp_state = IBV_QPS_RTR;
        EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
        attr.qp_state = IBV_QPS_RTS;
        EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
    }
    ~Datagrams()
    {
        EXPECT_EQ(ibv_destroy_qp(qp), 0);
        EXPECT_EQ(ibv_destroy_cq(cq), 0);
        EXPECT_EQ(ibv_dereg_mr(mr), 0);
    }
    ibv_ah* address(bool global, std::uint16_t lid, unsigned gid_index = 0)
    {
        ibv_ah_attr attr = {};
        attr.dlid = lid;
        attr.port_num = 1;
        attr.is_global = global;
        attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
        attr.grh.hop_limit = 1;
        attr.grh.traffic_class = 0x5a;
        attr.grh.flow_label = 0x12345;
        EXPECT_EQ(ibv_query_gid(device.context, 1, static_cast<int>(gid_index), &attr.grh.dgid), 0);
        return ibv_create_ah(device.pd, &attr);
    }
    int receive(std::uint32_t offset, std::uint32_t length)
    {
        ibv_sge list = {reinterpret_cast<std::uint64_t>(buffer.data()) + offset, length, mr->lkey};
        ibv_recv_wr wr = {offset, nullptr, &list, 1};
        ibv_recv_wr* bad;
        return ibv_post_recv(qp, &wr, &bad);
    }
    int post(std::uint32_t length, ibv_ah* ah, std::uint32_t number, std::uint32_t qkey,
             unsigned flags = IBV_SEND_SIGNALED, std::size_t offset = 0)
    {
        ibv_sge list = {reinterpret_cast<std::uint64_t>(buffer.data()) + offset, length, mr->lkey};
        ibv_send_wr wr = {};
        wr.sg_list = &list;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_SEND_WITH_IMM;
        wr.imm_data = 7;
        wr.send_flags = flags;
        wr.wr.ud = {ah, number, qkey};
        ibv_send_wr* bad;
        return ibv_post_send(qp, &wr, &bad);
    }
    ibv_wc_status send(std::uint32_t length, ibv_ah* ah, std::uint32_t number,
                       std::uint32_t qkey = 0x11)
    {
        EXPECT_EQ(post(length, ah, number, qkey), 0);
        ibv_wc wc = {};
        EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 1);
        return wc.status;
    }
    int to_state(ibv_qp_state state)
    {
        ibv_qp_attr attr = {};
        attr.qp_state = state;
        return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
    }
    ibv_qp_state state()
    {
        ibv_qp_attr attr;
        ibv_qp_init_attr init;
        EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
        return attr.qp_state;
    }
    bool poll(ibv_wc& wc) { return ibv_poll_cq(cq, 1, &wc) == 1; }

    Device& device;
    std::vector<unsigned char> buffer;
    ibv_mr* mr;
    ibv_cq* cq;
    ibv_qp* qp;
};
