// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/verbs: which CPUs gain by relaxed ordering of PCIe, and HCAs that have nothing else.
#include "verbs_fixture.hpp"

#include "verbs/relaxed_ordering.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

namespace verbs_test {
namespace {

struct Cpu {
    const char* vendor;
    int family;
    int model;
    const char* name;
};

class RelaxedOrdering : public testing::Test {
  protected:
    bool gains(const Cpu& cpu)
    {
        tree.write("cpuinfo", std::string("processor\t: 0\nvendor_id\t: ") + cpu.vendor +
                                  "\ncpu family\t: " + std::to_string(cpu.family) +
                                  "\nmodel\t\t: " + std::to_string(cpu.model) +
                                  "\nmodel name\t: " + cpu.name + "\nstepping\t: 1\n\n");
        return gdr::verbs::gains_by_relaxed_ordering(tree.root() / "cpuinfo");
    }

    Tree tree;
};

TEST_F(RelaxedOrdering, PaysOnTheseCpus)
{
    for (const Cpu& cpu : {Cpu{"AuthenticAMD", 23, 1, "AMD EPYC 7601 32-Core Processor"},
                           {"AuthenticAMD", 23, 49, "AMD EPYC 7742 64-Core Processor"},
                           {"AuthenticAMD", 25, 1, "AMD EPYC 7763 64-Core Processor"},
                           {"AuthenticAMD", 25, 17, "AMD EPYC 9654 96-Core Processor"},
                           {"AuthenticAMD", 26, 2, "AMD EPYC 9755 128-Core Processor"},
                           {"GenuineIntel", 6, 143, "Intel(R) Xeon(R) Platinum 8480C"},
                           {"GenuineIntel", 6, 207, "INTEL(R) XEON(R) PLATINUM 8592+"}}) {
        EXPECT_TRUE(gains(cpu)) << cpu.name;
    }
    for (const Cpu& cpu : {Cpu{"GenuineIntel", 6, 106, "Intel(R) Xeon(R) Platinum 8358"},
                           {"GenuineIntel", 15, 143, "Intel(R) Xeon(TM)"},
                           {"AuthenticAMD", 25, 33, "AMD Ryzen 9 5950X 16-Core Processor"},
                           {"HygonGenuine", 24, 1, "Hygon C86 7185 32-core Processor"}}) {
        EXPECT_FALSE(gains(cpu)) << cpu.name;
    }
}

TEST_F(RelaxedOrdering, DoesNotPayWhereTheCpuIsUnknown)
{
    tree.write("cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n");
    EXPECT_FALSE(gdr::verbs::gains_by_relaxed_ordering(tree.root() / "cpuinfo"));
    EXPECT_FALSE(gdr::verbs::gains_by_relaxed_ordering(tree.root() / "none"));
}

} // namespace
} // namespace verbs_test
