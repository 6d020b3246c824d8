// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/verbs: which GID and which partition key of a port's tables are chosen, and how often the
// HCA is asked.
#include "verbs_fixture.hpp"

#include "verbs/gid.hpp"
#include "verbs/pkey.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <net/if.h>

namespace verbs_test {
namespace {

using gdr::verbs::choose_gid;
using gdr::verbs::choose_pkey;

// What the functions below tell.
struct Hca {
    std::map<unsigned, ibv_gid_entry> gids; // by index
    std::vector<ibv_gid_entry> of_other_port;
    std::vector<uint16_t> pkeys;
    bool has_table = true; // ibv_query_gid_table
    bool has_types = true; // ibv_query_gid_ex
    unsigned calls = 0;    // about GIDs
} hca;

ibv_gid_entry gid(const char* address, unsigned interface = 0, unsigned type = IBV_GID_TYPE_ROCE_V2)
{
    ibv_gid_entry entry{};
    EXPECT_EQ(inet_pton(AF_INET6, address, entry.gid.raw), 1) << address;
    entry.gid_type = type;
    entry.ndev_ifindex = interface;
    entry.port_num = 1;
    return entry;
}

class Tables : public testing::Test {
  protected:
    Tables()
    {
        hca = {};
        std::snprintf(device.ibdev_path, sizeof(device.ibdev_path), "%s/class/infiniband/mlx5_0",
                      tree.root().c_str());
        context.device = &device;
        pd.context = &context;
        port.attributes.gid_tbl_len = 255;
        port.attributes.pkey_tbl_len = 128;
    }

    void have(unsigned index, ibv_gid_entry entry)
    {
        entry.gid_index = index;
        hca.gids[index] = entry;
    }
    // The kernel says that a GID belongs to this interface.
    void belongs(unsigned index, const std::string& interface)
    {
        tree.write("class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/" + std::to_string(index),
                   interface + "\n");
    }
    // -1: none.
    int chosen(std::optional<unsigned long> index = std::nullopt)
    {
        const auto found = choose_gid(&pd, port, index, &reason);
        return found ? found->index : -1;
    }

    Tree tree;
    ibv_device device{};
    ibv_context context{};
    ibv_pd pd{};
    gdr::verbs::Port port{1, {}, true, 0};
    std::string reason;
};

TEST_F(Tables, TheWholeTableOfGidsIsAskedForAtOnce)
{
    have(0, gid("fe80::1"));
    have(3, gid("::ffff:10.0.0.1"));
    EXPECT_EQ(chosen(), 3);
    EXPECT_EQ(hca.calls, 1u);
    hca.gids.clear();
    EXPECT_EQ(chosen(), -1);
    EXPECT_TRUE(reason.starts_with("no GID (")) << reason;
    EXPECT_EQ(hca.calls, 2u);
}

TEST_F(Tables, ThatOfTheOtherPortComesWithIt)
{
    for (unsigned index = 0; index < 255; ++index) {
        have(index, gid("fe80::1"));
    }
    hca.of_other_port.assign(255, gid("::ffff:10.0.0.1"));
    for (ibv_gid_entry& entry : hca.of_other_port) {
        entry.port_num = 2;
    }
    EXPECT_EQ(chosen(), 0);
    EXPECT_EQ(hca.calls, 1u);
}

TEST_F(Tables, WithoutThatEachIndexIsAskedForOnce)
{
    hca.has_table = false;
    have(0, gid("fe80::1"));
    have(3, gid("::ffff:10.0.0.1"));
    EXPECT_EQ(chosen(), 3);
    EXPECT_LE(hca.calls, 256u);
}

TEST_F(Tables, WithoutTypesAllAreOfTheFirstVersion)
{
    hca.has_table = hca.has_types = false;
    have(0, gid("fe80::1"));
    have(3, gid("::ffff:10.0.0.1"));
    EXPECT_EQ(chosen(), 3);
    EXPECT_EQ(choose_gid(&pd, port, std::nullopt, &reason)->type, gdr::verbs::GidType::roce_v1);
}

TEST_F(Tables, AGidOfAnotherNamespaceIsPassedOver)
{
    have(0, gid("::ffff:10.0.0.1"));
    have(1, gid("fe80::1"));
    belongs(0, "nowhere0");
    belongs(1, "lo");
    EXPECT_EQ(chosen(), 1);
    EXPECT_EQ(chosen(0), -1);
    EXPECT_EQ(reason, "no GID of this network namespace (that of index 0 belongs to nowhere0)");
}

TEST_F(Tables, SoIsOneWhoseInterfaceCannotBeRead)
{
    have(0, gid("::ffff:10.0.0.1"));
    have(1, gid("fe80::1"));
    belongs(1, "lo");
    EXPECT_EQ(chosen(), 1);
    EXPECT_EQ(chosen(0), -1);
    EXPECT_EQ(reason, "no GID of this network namespace (that of index 0 belongs to no interface "
                      "that is up)");
}

TEST_F(Tables, AndOneWhoseInterfaceOnlyHasTheNameOfOneHere)
{
    const unsigned lo = if_nametoindex("lo");
    have(0, gid("::ffff:10.0.0.1", lo + 1000));
    have(1, gid("fe80::1", lo));
    belongs(0, "lo");
    belongs(1, "lo");
    EXPECT_EQ(chosen(), 1);
    EXPECT_EQ(choose_gid(&pd, port, 1, &reason)->interface, lo);
}

TEST_F(Tables, AllAreTakenWhereTheKernelShowsNoInterfaces)
{
    have(0, gid("::ffff:10.0.0.1"));
    EXPECT_EQ(chosen(), 0);
    EXPECT_EQ(choose_gid(&pd, port, 0, &reason)->interface, 0u) << "unknown";
}

TEST_F(Tables, GidsOfInfinibandHaveNoInterface)
{
    port.ethernet = false;
    have(0, gid("fe80::1", 0, IBV_GID_TYPE_IB));
    tree.have("class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs");
    EXPECT_EQ(chosen(), 0);
}

int pkey(std::optional<unsigned long> partition = std::nullopt)
{
    gdr::verbs::Port port{1, {}, false, 0};
    port.attributes.pkey_tbl_len = static_cast<uint16_t>(hca.pkeys.size());
    const auto found = choose_pkey(nullptr, port, partition);
    EXPECT_TRUE(!found || hca.pkeys[found->index] == found->value);
    return found ? found->index : -1;
}

TEST(Pkeys, AFullMemberComesFirst)
{
    hca = {};
    hca.pkeys = {0x7fff, 0, 0x8012, 0xffff};
    EXPECT_EQ(pkey(), 2);
    hca.pkeys = {0x7fff, 0x0012};
    EXPECT_EQ(pkey(), 0) << "a limited one is better than none";
    hca.pkeys = {0, 0};
    EXPECT_EQ(pkey(), -1);
}

TEST(Pkeys, OfAPartition)
{
    hca = {};
    hca.pkeys = {0x7fff, 0x0012, 0xffff, 0x8012};
    EXPECT_EQ(pkey(0x12), 3);
    EXPECT_EQ(pkey(0x8012), 3) << "with the membership bit";
    EXPECT_EQ(pkey(0x7fff), 2);
    EXPECT_EQ(pkey(0x13), -1);
}

} // namespace
} // namespace verbs_test

using verbs_test::hca;

// ---- in the place of libibverbs'
#pragma GCC visibility push(default)
extern "C" {

int ibv_query_gid(ibv_context*, uint8_t, int index, ibv_gid* gid)
{
    ++hca.calls;
    const auto found = hca.gids.find(static_cast<unsigned>(index));
    *gid = found != hca.gids.end() ? found->second.gid : ibv_gid{};
    return 0;
}

int _ibv_query_gid_ex(ibv_context*, uint32_t, uint32_t index, ibv_gid_entry* entry, uint32_t,
                      size_t)
{
    ++hca.calls;
    if (!hca.has_types) {
        return EOPNOTSUPP;
    }
    const auto found = hca.gids.find(index);
    if (found == hca.gids.end()) {
        return ENODATA;
    }
    *entry = found->second;
    return 0;
}

ssize_t _ibv_query_gid_table(ibv_context*, ibv_gid_entry* entries, size_t count, uint32_t, size_t)
{
    ++hca.calls;
    if (!hca.has_table) {
        return -EOPNOTSUPP;
    }
    const size_t number = hca.gids.size() + hca.of_other_port.size();
    if (number > count) {
        return -EINVAL;
    }
    for (const ibv_gid_entry& entry : hca.of_other_port) {
        *entries++ = entry;
    }
    for (const auto& [index, entry] : hca.gids) {
        *entries++ = entry;
    }
    return static_cast<ssize_t>(number);
}

int ibv_query_pkey(ibv_context*, uint8_t, int index, __be16* pkey)
{
    *pkey = htons(hca.pkeys.at(static_cast<size_t>(index)));
    return 0;
}

ibv_ah* ibv_create_ah(ibv_pd*, ibv_ah_attr*)
{
    static ibv_ah handle;
    return &handle;
}

int ibv_destroy_ah(ibv_ah*)
{
    return 0;
}
}
#pragma GCC visibility pop
