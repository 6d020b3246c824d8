// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Datagrams: addresses, headers, what is dropped, multicast groups, on InfiniBand and on Ethernet.
#include "softhca_datagrams.hpp"

#include <cstring>

#include <unistd.h>

namespace {

class Ud : public ::testing::Test {
  protected:
    std::uint16_t lid()
    {
        ibv_port_attr port;
        EXPECT_EQ(ibv_query_port(device.context, 1, &port), 0);
        return port.lid;
    }
    Device device;
};

TEST_F(Ud, DatagramsArriveBehindTheirHeader)
{
    Datagrams a(device), b(device);
    ibv_port_attr port;
    ASSERT_EQ(ibv_query_port(device.context, 1, &port), 0);
    for (bool global : {false, true}) {
        ibv_ah* ah = a.address(global, port.lid);
        ASSERT_NE(ah, nullptr);
        for (std::uint32_t size : {0u, 8u, 48u, 49u, 4096u}) {
            fill(a.buffer.data(), size, size);
            ASSERT_EQ(b.receive(0, 5000), 0);
            EXPECT_EQ(a.send(size, ah, b.qp->qp_num), IBV_WC_SUCCESS);
            ibv_wc wc;
            ASSERT_TRUE(b.poll(wc));
            EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
            EXPECT_EQ(wc.byte_len, size + 40);
            EXPECT_EQ(wc.src_qp, a.qp->qp_num);
            EXPECT_EQ(wc.slid, port.lid);
            EXPECT_EQ(wc.imm_data, 7u);
            EXPECT_EQ(wc.wc_flags, IBV_WC_WITH_IMM | (global ? unsigned{IBV_WC_GRH} : 0u));
            EXPECT_TRUE(is_filled(b.buffer.data() + 40, size, size));
            // The way back is in the completion.
            auto* grh = reinterpret_cast<ibv_grh*>(b.buffer.data());
            ibv_ah_attr way;
            ASSERT_EQ(ibv_init_ah_from_wc(device.context, 1, &wc, grh, &way), 0);
            EXPECT_EQ(way.is_global, global);
            EXPECT_EQ(way.grh.traffic_class, global ? 0x5a : 0);
            EXPECT_EQ(way.grh.flow_label, global ? 0x12345u : 0);
            ibv_ah* back = ibv_create_ah_from_wc(device.pd, &wc, grh, 1);
            ASSERT_NE(back, nullptr);
            ASSERT_EQ(a.receive(8000, 5000), 0);
            EXPECT_EQ(b.send(8, back, wc.src_qp), IBV_WC_SUCCESS);
            ASSERT_TRUE(a.poll(wc));
            EXPECT_EQ(wc.byte_len, 48u);
            EXPECT_EQ(ibv_destroy_ah(back), 0);
        }
        EXPECT_EQ(ibv_destroy_ah(ah), 0);
    }
}

TEST_F(Ud, DatagramsNobodyTakesAreDropped)
{
    Datagrams a(device), b(device, 0x22);
    ibv_port_attr port;
    ASSERT_EQ(ibv_query_port(device.context, 1, &port), 0);
    ibv_ah* ah = a.address(false, port.lid);
    ibv_ah* elsewhere = a.address(false, static_cast<std::uint16_t>(port.lid + 5));
    ibv_wc wc;
    EXPECT_EQ(a.send(8, ah, b.qp->qp_num, 0x22), IBV_WC_SUCCESS); // no WQE
    ASSERT_EQ(b.receive(0, 5000), 0);
    EXPECT_FALSE(b.poll(wc));
    EXPECT_EQ(a.send(8, ah, b.qp->qp_num, 0x11), IBV_WC_SUCCESS); // wrong Q_Key
    EXPECT_EQ(a.send(8, ah, b.qp->qp_num ^ 0x8000, 0x22), IBV_WC_SUCCESS);
    EXPECT_EQ(a.send(8, elsewhere, b.qp->qp_num, 0x22), IBV_WC_SUCCESS);
    EXPECT_EQ(a.send(8, ah, b.qp->qp_num, 0x80000022), IBV_WC_SUCCESS); // stands for a's: 0x11
    EXPECT_FALSE(b.poll(wc));
    EXPECT_EQ(a.send(8, ah, b.qp->qp_num, 0x22), IBV_WC_SUCCESS);
    EXPECT_TRUE(b.poll(wc));
    EXPECT_EQ(a.send(4097, ah, b.qp->qp_num, 0x22), IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
    EXPECT_EQ(ibv_destroy_ah(elsewhere), 0);
}

// A datagram that its receive has no room for takes the queue pair to the error state.
TEST_F(Ud, DatagramTooLong)
{
    Datagrams a(device), b(device);
    ibv_ah* ah = a.address(false, lid());
    ASSERT_EQ(b.receive(0, 100), 0);
    ASSERT_EQ(b.receive(100, 100), 0);
    EXPECT_EQ(a.send(61, ah, b.qp->qp_num), IBV_WC_SUCCESS);
    for (const ibv_wc_status status : {IBV_WC_LOC_LEN_ERR, IBV_WC_WR_FLUSH_ERR}) {
        ibv_wc wc;
        ASSERT_TRUE(b.poll(wc));
        EXPECT_EQ(wc.status, status);
    }
    EXPECT_EQ(b.state(), IBV_QPS_ERR);
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

// What happens to sends after one that fails locally, and in a drained queue.
TEST_F(Ud, SendQueueErrorAndDrain)
{
    Datagrams a(device), b(device);
    ibv_ah* ah = a.address(false, lid());
    EXPECT_EQ(a.send(4097, ah, b.qp->qp_num), IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(a.state(), IBV_QPS_SQE);
    EXPECT_EQ(a.send(8, ah, b.qp->qp_num), IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(a.to_state(IBV_QPS_RTS), 0);
    ASSERT_EQ(b.receive(0, 5000), 0);
    EXPECT_EQ(a.send(8, ah, b.qp->qp_num), IBV_WC_SUCCESS);
    ibv_wc wc;
    EXPECT_TRUE(b.poll(wc));
    EXPECT_EQ(a.to_state(IBV_QPS_SQD), 0);
    fill(a.buffer.data(), 32, 1);
    ASSERT_EQ(a.post(32, ah, b.qp->qp_num, 0x11, IBV_SEND_INLINE | IBV_SEND_SIGNALED), 0);
    std::memset(a.buffer.data(), 0, 32); // it has been copied
    fill(a.buffer.data() + 100, 32, 2);
    ASSERT_EQ(a.post(32, ah, b.qp->qp_num, 0x11, IBV_SEND_SIGNALED, 100), 0);
    ASSERT_EQ(b.receive(0, 5000), 0);
    ASSERT_EQ(b.receive(5000, 5000), 0);
    EXPECT_FALSE(a.poll(wc));
    EXPECT_EQ(a.to_state(IBV_QPS_RTS), 0);
    for (unsigned i = 0; i < 2; ++i) {
        ASSERT_TRUE(a.poll(wc));
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
        ASSERT_TRUE(b.poll(wc));
        EXPECT_EQ(wc.byte_len, 72u);
        EXPECT_TRUE(is_filled(b.buffer.data() + i * 5000 + 40, 32, i + 1));
    }
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

// SOFTHCA_GRH="required,optional"
TEST(DISABLED_Configured, Grh)
{
    Device strict(0), lax(1);
    Datagrams a(strict), b(lax);
    const auto lid = [](Device& device, bool required) {
        ibv_port_attr port;
        EXPECT_EQ(ibv_query_port(device.context, 1, &port), 0);
        EXPECT_EQ((port.flags & IBV_QPF_GRH_REQUIRED) != 0, required);
        return port.lid;
    };
    const std::uint16_t a_lid = lid(strict, true), b_lid = lid(lax, false);
    EXPECT_EQ(a.address(false, b_lid), nullptr);
    Endpoint c(strict), d(strict);
    ASSERT_EQ(d.to_rtr(c.address()), EINVAL); // the fixture's is not global

    ibv_ah* without = b.address(false, a_lid);
    ibv_ah* with = a.address(true, a_lid);
    ASSERT_NE(without, nullptr);
    ASSERT_NE(with, nullptr);
    ASSERT_EQ(a.receive(0, 5000), 0);
    ibv_wc wc;
    EXPECT_EQ(b.send(8, without, a.qp->qp_num), IBV_WC_SUCCESS);
    EXPECT_FALSE(a.poll(wc)) << "without a GRH";
    EXPECT_EQ(a.send(8, with, a.qp->qp_num), IBV_WC_SUCCESS);
    EXPECT_TRUE(a.poll(wc));
    EXPECT_EQ(ibv_destroy_ah(without), 0);
    EXPECT_EQ(ibv_destroy_ah(with), 0);
}

TEST(Grh, IsRequired)
{
    EXPECT_TRUE(run_tests("DISABLED_Configured.Grh",
                          {"SOFTHCA_GRH=required,optional", "SOFTHCA_DEVICES=2"}));
}

ibv_gid group(unsigned char number)
{
    ibv_gid gid = {};
    gid.raw[0] = 0xff;
    gid.raw[1] = 0x12;
    gid.raw[15] = number;
    return gid;
}

ibv_ah* group_address(Datagrams& sender, const ibv_gid& gid)
{
    ibv_ah_attr attr = {};
    attr.dlid = 0xc001;
    attr.port_num = 1;
    attr.is_global = 1;
    attr.grh.dgid = gid;
    attr.grh.hop_limit = 1;
    return ibv_create_ah(sender.device.pd, &attr);
}

constexpr std::uint32_t kGroupQp = 0xffffff;

TEST_F(Ud, MulticastReachesEveryMember)
{
    const ibv_gid gid = group(1), other = group(2);
    Child child([&](Child::Link& link) {
        Device own;
        Datagrams member(own);
        ASSERT_EQ(ibv_attach_mcast(member.qp, &gid, 0xc001), 0);
        ASSERT_EQ(member.receive(0, 5000), 0);
        link.put('r');
        link.get<char>();
        ibv_wc wc;
        ASSERT_TRUE(member.poll(wc));
        EXPECT_TRUE(is_filled(member.buffer.data() + 40, 3000, 4));
        link.put('d');
        pause(); // and dies as a member
    });
    child.link().get<char>();
    {
        Datagrams a(device), b(device), c(device), d(device, 0x22), e(device);
        for (Datagrams* member : {&a, &b, &c, &d}) {
            ASSERT_EQ(ibv_attach_mcast(member->qp, &gid, 0xc001), 0);
        }
        ASSERT_EQ(ibv_attach_mcast(c.qp, &gid, 0xc001), 0); // again: still one copy
        ASSERT_EQ(ibv_attach_mcast(e.qp, &other, 0xc001), 0);
        for (Datagrams* qp : {&a, &b, &c, &d, &e}) {
            ASSERT_EQ(qp->receive(10000, 5000), 0);
            ASSERT_EQ(qp->receive(20000, 5000), 0);
        }
        ibv_ah* ah = group_address(a, gid);
        ASSERT_NE(ah, nullptr);
        fill(a.buffer.data(), 3000, 4);
        ASSERT_EQ(a.post(3000, ah, kGroupQp, 0x11, 0), 0);
        child.link().put('s');
        child.link().get<char>();
        ibv_wc wc;
        for (Datagrams* member : {&a, &b, &c}) { // the sender is a member like others
            ASSERT_TRUE(member->poll(wc));
            EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
            EXPECT_EQ(wc.byte_len, 3040u);
            EXPECT_EQ(wc.src_qp, a.qp->qp_num);
            EXPECT_EQ(wc.wc_flags & IBV_WC_GRH, unsigned{IBV_WC_GRH});
            const auto* grh = reinterpret_cast<const ibv_grh*>(member->buffer.data() + 10000);
            EXPECT_EQ(std::memcmp(&grh->dgid, &gid, sizeof gid), 0);
            EXPECT_TRUE(is_filled(member->buffer.data() + 10040, 3000, 4));
            EXPECT_FALSE(member->poll(wc));
        }
        EXPECT_FALSE(d.poll(wc)); // has another Q_Key
        EXPECT_FALSE(e.poll(wc)); // is in another group
        child.kill();
        EXPECT_EQ(ibv_destroy_qp(b.qp), EBUSY);
        ASSERT_EQ(ibv_detach_mcast(b.qp, &gid, 0xc001), 0);
        EXPECT_EQ(ibv_detach_mcast(b.qp, &gid, 0xc001), EINVAL);
        ASSERT_EQ(a.post(8, ah, kGroupQp, 0x11, 0), 0);
        EXPECT_FALSE(b.poll(wc));
        EXPECT_TRUE(c.poll(wc));
        for (Datagrams* member : {&a, &c, &d}) {
            EXPECT_EQ(ibv_detach_mcast(member->qp, &gid, 0xc001), 0);
        }
        EXPECT_EQ(ibv_detach_mcast(e.qp, &other, 0xc001), 0);
        EXPECT_EQ(ibv_destroy_ah(ah), 0);
    }
    // Only datagrams, and only to groups.
    Endpoint rc(device);
    Datagrams a(device);
    EXPECT_EQ(ibv_attach_mcast(rc.qp, &gid, 0xc001), EINVAL);
    EXPECT_EQ(ibv_attach_mcast(a.qp, &gid, 1), EINVAL);
    ibv_gid unicast = gid;
    unicast.raw[0] = 0xfe;
    EXPECT_EQ(ibv_attach_mcast(a.qp, &unicast, 0xc001), EINVAL);
}

TEST(DISABLED_Configured, Ethernet)
{
    Device device;
    ibv_port_attr port;
    ASSERT_EQ(ibv_query_port(device.context, 1, &port), 0);
    EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
    EXPECT_EQ(port.lid, 0);
    ibv_gid_entry table[8];
    ASSERT_EQ(ibv_query_gid_table(device.context, table, 8, 0), 2);
    EXPECT_EQ(table[0].gid_type, unsigned{IBV_GID_TYPE_ROCE_V2});
    EXPECT_EQ(table[0].gid.raw[0], 0xfe);
    EXPECT_EQ(table[1].gid.raw[10], 0xff);
    ibv_gid_entry none;
    EXPECT_EQ(ibv_query_gid_ex(device.context, 1, 2, &none, 0), ENODATA);
    Endpoint c(device), d(device);
    connect(c, d);
    ASSERT_EQ(d.post_receive(0, 8), 0);
    ASSERT_EQ(c.post_send(0, 8), 0);
    EXPECT_EQ(d.next().status, IBV_WC_SUCCESS);
    Datagrams a(device), b(device);
    EXPECT_EQ(a.address(false, 1), nullptr); // needs a GID
    for (unsigned index : {0u, 1u}) {
        ibv_ah* ah = a.address(true, 0, index);
        ASSERT_NE(ah, nullptr);
        ASSERT_EQ(b.receive(0, 5000), 0);
        EXPECT_EQ(a.send(8, ah, b.qp->qp_num), IBV_WC_SUCCESS);
        ibv_wc wc;
        ASSERT_TRUE(b.poll(wc));
        EXPECT_EQ(wc.sl & 7, index == 0 ? 1 : 2); // IPv6, IPv4
        ibv_ah_attr back;
        auto* grh = reinterpret_cast<ibv_grh*>(b.buffer.data());
        ASSERT_EQ(ibv_init_ah_from_wc(device.context, 1, &wc, grh, &back), 0);
        EXPECT_EQ(back.grh.sgid_index, index);
        EXPECT_EQ(back.grh.traffic_class, 0x5a);
        EXPECT_EQ(std::memcmp(&back.grh.dgid, &table[index].gid, 16), 0);
        EXPECT_EQ(ibv_destroy_ah(ah), 0);
    }
}

TEST(Ud_, Ethernet)
{
    EXPECT_TRUE(run_tests("DISABLED_Configured.Ethernet", {"SOFTHCA_LINK_LAYER=ethernet"}));
}

} // namespace
