// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A device with two ports, as libmlx5 and the verbs see it.
#include "softhca_fixture.hpp"

#include <array>
#include <cerrno>
#include <cstring>

#include <poll.h>

namespace {

class DISABLED_TwoPorts : public ::testing::Test {
  protected:
    ibv_port_attr port(unsigned number)
    {
        ibv_port_attr attributes = {};
        EXPECT_EQ(ibv_query_port(device.context, static_cast<std::uint8_t>(number), &attributes),
                  0);
        return attributes;
    }
    ibv_gid gid(unsigned number)
    {
        ibv_gid gid = {};
        EXPECT_EQ(ibv_query_gid(device.context, static_cast<std::uint8_t>(number), 0, &gid), 0);
        return gid;
    }

    Device device;
};

TEST_F(DISABLED_TwoPorts, HaveAddressesOfTheirOwn)
{
    ibv_device_attr attributes;
    ASSERT_EQ(ibv_query_device(device.context, &attributes), 0);
    EXPECT_EQ(attributes.phys_port_cnt, 2);
    EXPECT_EQ(port(1).state, IBV_PORT_ACTIVE);
    EXPECT_EQ(port(2).state, IBV_PORT_ACTIVE);
    EXPECT_NE(port(1).lid, port(2).lid);
    EXPECT_NE(gid(1).global.interface_id, gid(2).global.interface_id);
    EXPECT_EQ(gid(1).global.interface_id, attributes.node_guid);
    std::array<ibv_gid_entry, 8> entries;
    ASSERT_EQ(ibv_query_gid_table(device.context, entries.data(), entries.size(), 0), 2);
    EXPECT_EQ(entries[0].port_num, 1u);
    EXPECT_EQ(entries[1].port_num, 2u);
    std::uint16_t key = 0;
    EXPECT_EQ(ibv_query_pkey(device.context, 2, 0, reinterpret_cast<__be16*>(&key)), 0);
    EXPECT_EQ(key, 0xffff);
}

TEST_F(DISABLED_TwoPorts, ThereIsNoThird)
{
    ibv_port_attr attributes;
    EXPECT_EQ(ibv_query_port(device.context, 3, &attributes), EINVAL);
    EXPECT_EQ(ibv_query_port(device.context, 0, &attributes), EINVAL);
    ibv_cq* const cq = ibv_create_cq(device.context, 1, nullptr, nullptr, 0);
    ibv_qp_init_attr init = {};
    init.send_cq = init.recv_cq = cq;
    init.cap = {1, 1, 1, 1, 0};
    init.qp_type = IBV_QPT_UD;
    ibv_qp* const qp = ibv_create_qp(device.pd, &init);
    ASSERT_NE(qp, nullptr);
    ibv_qp_attr change = {};
    change.qp_state = IBV_QPS_INIT;
    const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
    for (const std::uint8_t number : {std::uint8_t{0}, std::uint8_t{3}}) {
        change.port_num = number;
        EXPECT_EQ(ibv_modify_qp(qp, &change, mask), EINVAL);
    }
    change.port_num = 2;
    EXPECT_EQ(ibv_modify_qp(qp, &change, mask), 0);
    ibv_qp_attr found;
    EXPECT_EQ(ibv_query_qp(qp, &found, IBV_QP_PORT, &init), 0);
    EXPECT_EQ(found.port_num, 2);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(DISABLED_TwoPorts, OneGoesDownAlone)
{
    EXPECT_EQ(port(1).state, IBV_PORT_ACTIVE);
    EXPECT_EQ(port(2).state, IBV_PORT_DOWN);
    pollfd events = {device.context->async_fd, POLLIN, 0};
    ASSERT_EQ(::poll(&events, 1, 10'000), 1);
    ibv_async_event event;
    ASSERT_EQ(ibv_get_async_event(device.context, &event), 0);
    EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ACTIVE);
    EXPECT_EQ(event.element.port_num, 2);
    ibv_ack_async_event(&event);
    EXPECT_EQ(port(2).state, IBV_PORT_ACTIVE);
}

TEST(Ports, TwoOfADevice)
{
    EXPECT_TRUE(run_tests("DISABLED_TwoPorts.*:-*Down*", {"SOFTHCA_PORTS=2"}));
    EXPECT_TRUE(run_tests("DISABLED_TwoPorts.*Down*",
                          {"SOFTHCA_PORTS=2", "SOFTHCA_FAULTS=softhca1 down 2000 at start"}));
}

} // namespace
