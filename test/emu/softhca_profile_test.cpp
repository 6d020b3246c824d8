// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// SOFTHCA_PROFILE: HCAs that have less than softhca, and answer otherwise. Each DISABLED_ test is
// run by another one, in a process with the profile.
#include "softhca_fixture.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <unistd.h>

#include <arpa/inet.h>

namespace {

ibv_device_attr query(ibv_context* context)
{
    ibv_device_attr attributes = {};
    EXPECT_EQ(ibv_query_device(context, &attributes), 0);
    return attributes;
}

// A queue pair, destroyed at once: 0 or the errno. What was granted is in init then.
int try_qp(Device& device, ibv_cq* cq, ibv_qp_init_attr& init)
{
    init.send_cq = init.recv_cq = cq;
    init.cap.max_send_wr = init.cap.max_recv_wr = init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    errno = 0;
    ibv_qp* qp = ibv_create_qp(device.pd, &init);
    return qp == nullptr ? errno : ibv_destroy_qp(qp);
}

int try_qp(Device& device, ibv_qp_type type, std::uint32_t& inline_data)
{
    ibv_cq* cq = ibv_create_cq(device.context, 8, nullptr, nullptr, 0);
    ibv_qp_init_attr init = {};
    init.qp_type = type;
    init.cap.max_inline_data = inline_data;
    const int error = try_qp(device, cq, init);
    inline_data = init.cap.max_inline_data;
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    return error;
}

int try_qp(Device& device, ibv_qp_type type, std::uint32_t&& inline_data = 0)
{
    return try_qp(device, type, inline_data);
}

// 0 or the errno; -1: nothing was made, and errno says nothing.
int try_address_handle(Device& device)
{
    ibv_ah_attr attributes = {};
    attributes.port_num = 1;
    attributes.is_global = 1;
    EXPECT_EQ(ibv_query_gid(device.context, 1, 0, &attributes.grh.dgid), 0);
    errno = 0;
    ibv_ah* ah = ibv_create_ah(device.pd, &attributes);
    return ah != nullptr ? ibv_destroy_ah(ah) : errno != 0 ? errno : -1;
}

int try_srq(Device& device)
{
    ibv_srq_init_attr init = {};
    init.attr.max_wr = init.attr.max_sge = 1;
    ibv_srq* srq = ibv_create_srq(device.pd, &init);
    return srq == nullptr ? errno : ibv_destroy_srq(srq);
}

int try_to_allow(Device& device, unsigned access)
{
    ibv_cq* cq = ibv_create_cq(device.context, 8, nullptr, nullptr, 0);
    ibv_qp_init_attr init = {};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {1, 1, 1, 1, 0};
    ibv_qp* qp = ibv_create_qp(device.pd, &init);
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    attributes.qp_access_flags = access;
    const int error = ibv_modify_qp(
        qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    return error;
}

int try_memory(Device& device, int access)
{
    static char memory[64];
    ibv_mr* mr = ibv_reg_mr(device.pd, memory, sizeof memory, access);
    return mr == nullptr ? errno : ibv_dereg_mr(mr);
}

// What resizing a completion queue of 8 entries to 16 answers; cqe is what it has then.
int try_resize(Device& device, int& cqe)
{
    ibv_cq* cq = ibv_create_cq(device.context, 8, nullptr, nullptr, 0);
    const int error = ibv_resize_cq(cq, 16);
    cqe = cq->cqe;
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    return error;
}

TEST(Profile, DISABLED_Thor)
{
    Device device;
    const ibv_device_attr limits = query(device.context);
    EXPECT_EQ(limits.vendor_id, 0x14e4u);
    EXPECT_EQ(limits.atomic_cap, IBV_ATOMIC_NONE);
    EXPECT_EQ(limits.max_sge, 6);
    EXPECT_NE(std::strstr(limits.fw_ver, " thor"), nullptr);
    EXPECT_EQ(try_qp(device, IBV_QPT_RC, 97), EINVAL);
    EXPECT_EQ(try_qp(device, IBV_QPT_RC, 96), 0);
    EXPECT_EQ(try_to_allow(device, kAllAccess), 0); // to no avail
    EXPECT_EQ(try_address_handle(device), 0);
    ibv_td_init_attr none = {};
    EXPECT_EQ(ibv_alloc_td(device.context, &none), nullptr);
    ibv_port_attr port = {};
    EXPECT_EQ(ibv_query_port(device.context, 1, &port), 0);
    EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
    const auto resize_and_destroy = [] {
        Device opened; // by the child that EXPECT_DEATH forks
        int cqe;
        try_resize(opened, cqe);
    };
    EXPECT_DEATH(resize_and_destroy(), "freed twice");
    ibv_cq* cq = ibv_create_cq(device.context, 8, nullptr, nullptr, 0);
    EXPECT_EQ(ibv_resize_cq(cq, 16), -EOPNOTSUPP);
}

TEST(Profile, DISABLED_Several)
{
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    ASSERT_EQ(count, 3); // as many as there are profiles
    EXPECT_EQ(list[0]->transport_type, IBV_TRANSPORT_UNSPECIFIED);
    EXPECT_EQ(list[1]->transport_type, IBV_TRANSPORT_IWARP);
    EXPECT_EQ(list[1]->node_type, IBV_NODE_RNIC);
    ibv_free_device_list(list);
    Device efa(0);
    EXPECT_EQ(try_qp(efa, IBV_QPT_RC), EOPNOTSUPP);
    EXPECT_EQ(try_qp(efa, IBV_QPT_UD), 0);
    EXPECT_EQ(try_srq(efa), EOPNOTSUPP);
    Device hip08(2);
    EXPECT_EQ(try_qp(hip08, IBV_QPT_UD), EOPNOTSUPP);
    EXPECT_EQ(try_address_handle(hip08), -1);
    std::uint32_t inline_data = 128;
    EXPECT_EQ(try_qp(hip08, IBV_QPT_RC, inline_data), 0);
    EXPECT_EQ(inline_data, 32u);
    EXPECT_EQ(query(hip08.context).max_qp_rd_atom, 128);
}

TEST(Profile, DISABLED_Keys)
{
    Device device;
    EXPECT_EQ(try_address_handle(device), EOPNOTSUPP);
    EXPECT_EQ(try_to_allow(device, kAllAccess), EOPNOTSUPP);
    EXPECT_EQ(try_to_allow(device, kAllAccess & ~IBV_ACCESS_REMOTE_ATOMIC), 0);
    EXPECT_GT(query(device.context).max_srq, 0);
    EXPECT_EQ(try_srq(device), EINVAL);
    EXPECT_EQ(try_memory(device, IBV_ACCESS_LOCAL_WRITE), EOPNOTSUPP);
    EXPECT_EQ(try_memory(device, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING), 0);
    int cqe = 0;
    EXPECT_EQ(try_resize(device, cqe), 0);
    EXPECT_EQ(cqe, 8);
    ibv_port_attr port = {};
    EXPECT_EQ(ibv_query_port(device.context, 1, &port), 0);
    EXPECT_EQ(port.pkey_tbl_len, 2);
    EXPECT_EQ(port.gid_tbl_len, 255);
    EXPECT_EQ(port.active_speed, 128); // what the 8 bits hold of XDR
    EXPECT_EQ(port.active_width, 8);
    __be16 pkey = 0;
    EXPECT_EQ(ibv_query_pkey(device.context, 1, 0, &pkey), 0);
    EXPECT_EQ(ntohs(pkey), 0x7fff);
    EXPECT_EQ(ibv_get_pkey_index(device.context, 1, htons(0x8012)), 1);
    ibv_gid_entry entry;
    EXPECT_EQ(ibv_query_gid_ex(device.context, 1, 0, &entry, 0), ENODATA);
    EXPECT_EQ(ibv_query_gid_ex(device.context, 1, 1, &entry, 0), 0);
    char text[INET6_ADDRSTRLEN];
    EXPECT_STREQ(inet_ntop(AF_INET6, entry.gid.raw, text, sizeof text), "fd00::1");
    EXPECT_EQ(ibv_query_gid_ex(device.context, 1, 3, &entry, 0), 0);
    EXPECT_EQ(ibv_query_gid_ex(device.context, 1, 254, &entry, 0), ENODATA);
    EXPECT_EQ(ibv_query_gid_ex(device.context, 1, 255, &entry, 0), EINVAL);
}

TEST(Profile, DISABLED_NobodyIsReached)
{
    Device device;
    Endpoint a(device), b(device);
    connect(a, b);
    ASSERT_EQ(b.post_receive(0, 100), 0);
    ASSERT_EQ(a.post_send(0, 100), 0);
    EXPECT_EQ(a.next().status, IBV_WC_RETRY_EXC_ERR);
    char data[64] = {};
    const int fd = open("/sys/class/infiniband/softhca0/device/vpd", O_RDONLY);
    const ssize_t size = read(fd, data, sizeof data);
    close(fd);
    ASSERT_GT(size, 0);
    EXPECT_NE(memmem(data, static_cast<std::size_t>(size), "SW_MNG", 6), nullptr);
}

TEST(Profile, DISABLED_IsOverruled)
{
    Device device;
    ibv_port_attr port = {};
    EXPECT_EQ(ibv_query_port(device.context, 1, &port), 0);
    EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
    EXPECT_TRUE(port.flags & IBV_QPF_GRH_REQUIRED);
    ibv_td_init_attr none = {};
    ibv_td* td = ibv_alloc_td(device.context, &none);
    EXPECT_NE(td, nullptr);
    EXPECT_EQ(ibv_dealloc_td(td), 0);
    int cqe = 0;
    EXPECT_EQ(try_resize(device, cqe), -EOPNOTSUPP);
    EXPECT_EQ(query(device.context).max_sge, 5);
}

// One that is not understood is softhca.
TEST(Profile, DISABLED_IsNotUnderstood)
{
    int count = 0;
    ibv_free_device_list(ibv_get_device_list(&count));
    EXPECT_EQ(count, 1);
    Device device;
    EXPECT_EQ(query(device.context).vendor_id, 0x020000u);
}

TEST(Profile, Thor)
{
    EXPECT_TRUE(run_tests("Profile.DISABLED_Thor", {"SOFTHCA_PROFILE=thor"}));
}

TEST(Profile, Several)
{
    EXPECT_TRUE(run_tests("Profile.DISABLED_Several", {"SOFTHCA_PROFILE=efa;iwarp;hip08"}));
}

TEST(Profile, Keys)
{
    EXPECT_TRUE(run_tests(
        "Profile.DISABLED_Keys",
        {"SOFTHCA_PROFILE=cx7,ah=eopnotsupp,atomics=refused,srq=einval,relaxed=only,"
         "resize_cq=does_nothing,pkeys=7fff+8012,gid_tbl_len=255,gids=none+fd00::1+own@netns+"
         "fd00::2@netns,speed=xdr,width=12"}));
}

TEST(Profile, NobodyIsReached)
{
    EXPECT_TRUE(run_tests("Profile.DISABLED_NobodyIsReached", {"SOFTHCA_PROFILE=nvswitch_port"}));
}

TEST(Profile, IsOverruled)
{
    EXPECT_TRUE(run_tests("Profile.DISABLED_IsOverruled",
                          {"SOFTHCA_PROFILE=thor,max_sge=5", "SOFTHCA_LINK_LAYER=infiniband",
                           "SOFTHCA_GRH=required", "SOFTHCA_EXTENDED=thread_domain"}));
}

TEST(Profile, IsNotUnderstood)
{
    for (const char* profile : {"foo", "thor,foo=1", "thor,ud=perhaps", "thor;foo",
                                "cx7,pkeys=", "cx7,gids=own+own+own+own+own", ";;;;;;;;"}) {
        EXPECT_TRUE(run_tests("Profile.DISABLED_IsNotUnderstood",
                              {(std::string("SOFTHCA_PROFILE=") + profile).c_str()}));
    }
}

} // namespace
