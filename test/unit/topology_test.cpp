// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/topology: distances, and the rule by which ports serve GPUs. test/machines has whole
// machines.
#include "verbs_fixture.hpp"

#include "topology/assignment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gdr::topology {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Ports = std::vector<size_t>;

Place at(const std::string& path, int numa_node = 0)
{
    Place place = parse_place("/sys/devices/" + path);
    place.numa_node = numa_node;
    return place;
}

const Place kGpu = at("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0");
const Place kBeside = at("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0");
const Place kOtherSwitch = at("pci0000:00/0000:00:02.0/0000:05:00.0/0000:06:00.0/0000:07:00.0");
const Place kOtherBridge = at("pci0000:80/0000:80:01.0/0000:81:00.0");
const Place kFar = at("pci0000:80/0000:80:01.0/0000:81:00.0", 1);
const Place kGuest = at("pci0001:00/0001:00:00.0", -1);

Port port(const std::string& name, const Place& place, double rate = 400, bool ethernet = false)
{
    return {name, place, rate, ethernet};
}

// The ports of each GPU.
std::vector<Ports> ports_of(const std::vector<Place>& gpus, const std::vector<Port>& ports)
{
    std::vector<Ports> all;
    for (const Assignment& assignment : assign(gpus, ports)) {
        all.push_back(assignment.ports);
    }
    return all;
}

TEST(Place, IsReadFromThePath)
{
    EXPECT_EQ(kGpu.address, "0000:03:00.0");
    EXPECT_EQ(kGpu.host_bridge, "pci0000:00");
    EXPECT_THAT(kGpu.bridges, ElementsAre("0000:00:01.0", "0000:01:00.0", "0000:02:00.0"));
    EXPECT_EQ(at("pci0000:3a/0000:3b:00.0/mlx5_core.sf.4").address, "0000:3b:00.0");
    EXPECT_FALSE(at("virtual/net/eth0").exists());
}

TEST(Place, OfThisMachine)
{
    verbs_test::Tree tree;
    tree.write("sys/pci0000:3a/0000:3b:00.0/numa_node", "1\n");
    tree.write("sys/pci0000:3a/0000:3b:00.0/mlx5_core.sf.4/file", "");
    tree.link("gpu", "sys/pci0000:3a/0000:3b:00.0");
    tree.link("function", "sys/pci0000:3a/0000:3b:00.0/mlx5_core.sf.4");
    for (const char* name : {"gpu", "function"}) {
        EXPECT_EQ(place_of(tree.root() / name).address, "0000:3b:00.0");
        EXPECT_EQ(place_of(tree.root() / name).numa_node, 1);
    }
    EXPECT_FALSE(place_of(tree.root() / "missing").exists());
}

TEST(Distance, FollowsTheBuses)
{
    EXPECT_EQ(distance(kGpu, kBeside), Distance::same_switch);
    EXPECT_EQ(distance(kGpu, kOtherSwitch), Distance::same_host_bridge);
    EXPECT_EQ(distance(kGpu, kOtherBridge), Distance::same_numa_node);
    EXPECT_EQ(distance(kGpu, kFar), Distance::far);
    EXPECT_EQ(distance(kGpu, kGuest), Distance::unknown);
    EXPECT_EQ(distance(kGpu, {}), Distance::unknown);
}

TEST(Distance, WithinASwitchTheDeepestBridgeDecides)
{
    const Place deeper = at("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.1");
    EXPECT_EQ(distance(kGpu, deeper), distance(kGpu, kBeside));
    EXPECT_LT(remoteness(kGpu, deeper), remoteness(kGpu, kBeside));
}

TEST(Assignment, TheNearestServes)
{
    EXPECT_THAT(ports_of({kGpu, kFar}, {port("a:1", kFar), port("b:1", kBeside)}),
                ElementsAre(Ports{1}, Ports{0}));
    EXPECT_EQ(assign({kGpu}, {port("a:1", kFar)})[0].distance, Distance::far);
}

TEST(Assignment, EquallyNearOnesAreSharedOut)
{
    const std::vector<Port> two{port("a:1", kBeside), port("b:1", kBeside)};
    EXPECT_THAT(ports_of({kGpu, kGpu}, two), ElementsAre(Ports{0}, Ports{1}));
    EXPECT_THAT(ports_of({kGpu}, two), ElementsAre(Ports{0, 1}));
    EXPECT_THAT(ports_of({kGpu, kGpu, kGpu}, two), ElementsAre(Ports{0}, Ports{1}, Ports{0}));
    const std::vector<Port> guest(4, port("a:1", kGuest));
    EXPECT_THAT(ports_of({kGpu, kGpu}, guest), ElementsAre(Ports{0, 1}, Ports{2, 3}));
}

TEST(Assignment, TheFasterOfEquallyNearOnes)
{
    EXPECT_THAT(ports_of({kGpu}, {port("a:1", kBeside, 200), port("b:1", kBeside, 400)}),
                ElementsAre(Ports{1}));
}

TEST(Assignment, FrontEndsServeOnlyIfThereIsNothingElse)
{
    const Port slow = port("a:1", kBeside, 100), ethernet = port("b:1", kBeside, 400, true),
               bond = port("mlx5_bond_0:1", kBeside, 400, true), other = port("c:1", kFar),
               other_ethernet = port("d:1", kFar, 400, true);
    EXPECT_THAT(ports_of({kGpu}, {slow, other}), ElementsAre(Ports{1}));
    EXPECT_THAT(ports_of({kGpu}, {ethernet, other}), ElementsAre(Ports{1}));
    EXPECT_THAT(ports_of({kGpu}, {bond, other_ethernet}), ElementsAre(Ports{1}));
    for (const Port& only : {slow, ethernet, bond}) {
        EXPECT_THAT(ports_of({kGpu}, {only}), ElementsAre(Ports{0})) << only.name;
    }
    // A slow InfiniBand port is better than a fast Ethernet one: the fabrics differ.
    EXPECT_THAT(ports_of({kGpu}, {slow, ethernet}), ElementsAre(Ports{0}));
}

TEST(Assignment, WithoutPortsNothingServes)
{
    EXPECT_THAT(ports_of({kGpu}, {}), ElementsAre(IsEmpty()));
    EXPECT_THAT(ports_of({}, {port("a:1", kGpu)}), IsEmpty());
}

} // namespace
} // namespace gdr::topology
