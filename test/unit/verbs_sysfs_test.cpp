// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/verbs: what is read of an HCA in sysfs, which is a directory of the test's here.
#include "verbs_fixture.hpp"

#include "verbs/speed.hpp"
#include "verbs/sysfs.hpp"

#include <gtest/gtest.h>

namespace verbs_test {
namespace {

using gdr::verbs::data_rate;
using gdr::verbs::Sysfs;

constexpr double kGbps = 1e9 / 8;

class SysfsTest : public testing::Test {
  protected:
    // The HCA is at a place in devices/.
    void be_at(const std::string& place)
    {
        tree.have("devices/" + place);
        tree.link("class/infiniband/mlx5_0/device", "devices/" + place);
    }

    Tree tree;
    const Sysfs sysfs{tree.root() / "class/infiniband/mlx5_0"};
};

TEST_F(SysfsTest, NothingIsKnownOfAnEmulatedHca)
{
    EXPECT_FALSE(sysfs.exists());
    EXPECT_EQ(sysfs.pci_bus_id(), "");
    EXPECT_EQ(sysfs.rate(1), 0);
    EXPECT_FALSE(sysfs.shows_interfaces(1));
    EXPECT_FALSE(sysfs.manages_switches());
}

TEST_F(SysfsTest, AnHcaIsAPciDevice)
{
    be_at("pci0000:3a/0000:3a:00.0/0000:3b:00.0");
    EXPECT_TRUE(sysfs.exists());
    EXPECT_EQ(sysfs.pci_bus_id(), "0000:3b:00.0");
}

TEST_F(SysfsTest, ASubFunctionIsWhereItsHcaIs)
{
    be_at("pci0000:3a/0000:3a:00.0/0000:3b:00.0/mlx5_core.sf.4");
    EXPECT_EQ(sysfs.pci_bus_id(), "0000:3b:00.0");
}

TEST_F(SysfsTest, BehindVmdItIsWhereTheVmdIs)
{
    be_at("pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/10000:e1:00.0");
    EXPECT_EQ(sysfs.pci_bus_id(), "0000:00:0e.0");
}

TEST_F(SysfsTest, SoftRoceIsNowhere)
{
    be_at("virtual/net/eth0");
    EXPECT_EQ(sysfs.pci_bus_id(), "");
}

TEST_F(SysfsTest, RatesOfPorts)
{
    tree.write("class/infiniband/mlx5_0/ports/1/rate", "800 Gb/sec (4X XDR)\n");
    EXPECT_EQ(sysfs.rate(1), 800);
    EXPECT_EQ(sysfs.rate(2), 0);
    // What the kernel says of speeds that it does not know.
    tree.write("class/infiniband/mlx5_0/ports/2/rate", "10 Gb/sec (4X SDR)\n");
    EXPECT_EQ(sysfs.rate(2), 0);
    tree.write("class/infiniband/mlx5_0/ports/2/rate", "");
    EXPECT_EQ(sysfs.rate(2), 0);
}

TEST(Speed, OfVerbs)
{
    EXPECT_DOUBLE_EQ(data_rate(1, 1, 0), 2 * kGbps) << "SDR 1x";
    EXPECT_DOUBLE_EQ(data_rate(64, 2, 0), 200 * kGbps) << "HDR 4x";
    EXPECT_DOUBLE_EQ(data_rate(64, 16, 0), 100 * kGbps) << "HDR 2x";
    EXPECT_DOUBLE_EQ(data_rate(64, 2, 800), 200 * kGbps) << "the verbs know better";
    EXPECT_DOUBLE_EQ(data_rate(256, 2, 0), 800 * kGbps) << "XDR 4x";
}

TEST(Speed, OfSysfsWhereVerbsHaveNone)
{
    EXPECT_DOUBLE_EQ(data_rate(128, 2, 800), 800 * kGbps) << "XDR, told as NDR";
    EXPECT_DOUBLE_EQ(data_rate(128, 2, 400), 400 * kGbps) << "NDR";
    EXPECT_DOUBLE_EQ(data_rate(128, 2, 0), 400 * kGbps);
    EXPECT_DOUBLE_EQ(data_rate(0, 2, 800), 800 * kGbps);
}

TEST(Speed, UnknownIsNotSlowest)
{
    const double edr = 25.78125 * 64 / 66 * kGbps;
    EXPECT_DOUBLE_EQ(data_rate(0, 2, 0), 4 * edr) << "not told";
    EXPECT_DOUBLE_EQ(data_rate(0, 0, 0), 4 * edr) << "nor the width";
    EXPECT_DOUBLE_EQ(data_rate(512, 2, 0), 800 * kGbps) << "faster than all that is known";
    EXPECT_DOUBLE_EQ(data_rate(512, 2, 1600), 1600 * kGbps);
}

TEST(Speed, WhereTheVerbsHaveIt)
{
    struct {
        uint8_t active_speed;
        uint32_t active_speed_ex;
    } xdr{128, 256}, untold{128, 0};
    struct {
        uint8_t active_speed;
    } older{64};
    EXPECT_EQ(gdr::verbs::active_speed(xdr), 256u);
    EXPECT_EQ(gdr::verbs::active_speed(untold), 128u);
    EXPECT_EQ(gdr::verbs::active_speed(older), 64u);
}

TEST_F(SysfsTest, InterfacesOfGids)
{
    tree.write("class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/3", "eth1.7\n");
    EXPECT_TRUE(sysfs.shows_interfaces(1));
    EXPECT_FALSE(sysfs.shows_interfaces(2));
    EXPECT_EQ(sysfs.interface(1, 3), "eth1.7");
    EXPECT_EQ(sysfs.interface(1, 4), "") << "cannot be read";
}

TEST_F(SysfsTest, LinksOfBonds)
{
    tree.write("class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/3", "bond0\n");
    EXPECT_EQ(sysfs.links(1, 3), 1u) << "no bond";
    tree.write("class/net/bond0/bonding/slaves", "ens1f0 ens1f1\n");
    tree.write("class/net/bond0/bonding/mode", "802.3ad 4\n");
    EXPECT_EQ(sysfs.links(1, 3), 2u);
    EXPECT_EQ(sysfs.links(1, 4), 1u) << "a GID of nothing";
    tree.write("class/net/bond0/bonding/mode", "active-backup 1\n");
    EXPECT_EQ(sysfs.links(1, 3), 1u) << "one at a time";
    tree.write("class/net/bond0/bonding/mode", "802.3ad 4\n");
    tree.write("class/net/bond0/bonding/slaves", "\n");
    EXPECT_EQ(sysfs.links(1, 3), 1u) << "none yet";
}

// Vital product data as an NVSwitch's management port has them: the name of the product, and the
// vendor's own fields.
TEST_F(SysfsTest, ManagementOfSwitchesIsInTheVpd)
{
    be_at("pci0000:07/0000:07:00.0");
    tree.write("devices/pci0000:07/0000:07:00.0/vpd",
               std::string("\x82\x0a\0NVIDIA CX7", 13) +
                   std::string("\x90\x10\0VA\x0dMODL=SW_MNG:A", 19) + '\x78');
    EXPECT_TRUE(sysfs.manages_switches());
    tree.write("devices/pci0000:07/0000:07:00.0/vpd", std::string("\x82\x0a\0NVIDIA CX7\x78", 14));
    EXPECT_FALSE(sysfs.manages_switches());
}

TEST_F(SysfsTest, ManagementOfSwitchesIsInTheNodeDescription)
{
    tree.write("class/infiniband/mlx5_0/node_desc", "host7 mlx5_0\n");
    EXPECT_FALSE(sysfs.manages_switches());
    tree.write("class/infiniband/mlx5_0/node_desc", "host7 SW_MNG mlx5_0\n");
    EXPECT_TRUE(sysfs.manages_switches());
}

} // namespace
} // namespace verbs_test
