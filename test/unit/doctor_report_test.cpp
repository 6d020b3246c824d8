// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/doctor: what the user reads.
#include "doctor_fixture.hpp"

#include "doctor/json.hpp"
#include "doctor/reader/text.hpp"
#include "doctor/report.hpp"

#include <nlohmann/json.hpp>

namespace doctor_test {
namespace {

using namespace gdr::doctor;

class DoctorReportTest : public DoctorTest {
  protected:
    template <class Function>
    auto examined(Function function) const
    {
        const Root its_root(root(), facts);
        const Machine machine(its_root);
        return function(Examination(machine));
    }
    std::string text(const Style& style = {}) const
    {
        return examined([&](const Examination& examination) { return report(examination, style); });
    }
    int exit_status() const
    {
        return examined([](const Examination& examination) { return examination.exit_status(); });
    }
};

TEST_F(DoctorReportTest, TheVerdictComesFirst)
{
    EXPECT_EQ(exit_status(), 0);
    EXPECT_NE(
        text().find("host n017: nothing is in the way of GPUDirect RDMA (0 errors, 0 warnings)\n"),
        std::string::npos);
}

TEST_F(DoctorReportTest, TheExitStatusIsTheWorst)
{
    write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    EXPECT_EQ(exit_status(), 1);
    set("UCX_TLS", "rc");
    EXPECT_EQ(exit_status(), 2);
    remove("usr/lib/libucp.so.0");
    EXPECT_EQ(exit_status(), 3);
    EXPECT_NE(text().find("programs do not run (2 errors, 1 warning)"), std::string::npos);
}

TEST_F(DoctorReportTest, TheMachineComesThen)
{
    write("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
    facts.ucx_version = "1.18.1";
    const std::string all = text();
    const auto lines_of = [&](const std::string& word) {
        std::string found;
        for (const std::string& line : lines(all)) {
            found += line.starts_with(word) ? line.substr(8) + "\n" : "";
        }
        return found;
    };
    EXPECT_EQ(lines_of("UCX "), "1.18.1, /usr/lib/libucp.so.0\n");
    EXPECT_EQ(lines_of("MPI "), "Open MPI, /usr/bin/orterun\n");
    EXPECT_EQ(lines_of("HCA "), "mlx5_0:1 InfiniBand, 400 Gb/sec (4X NDR), DOWN, not usable\n");
    EXPECT_EQ(lines_of("driver "),
              "NVIDIA 550.54.15, open kernel modules, nvidia-peermem not loaded\n");
    EXPECT_LT(all.find("UCX "), all.find("ERROR"));
}

TEST_F(DoctorReportTest, AMachineWithoutAnything)
{
    for (const char* file :
         {"sys/class/infiniband", "proc/driver/nvidia", "usr/bin/mpirun", "usr/lib/libucp.so.0"}) {
        remove(file);
    }
    for (const char* line : {"\nUCX     none is found\n", "\nMPI     none\n", "\nHCA     none\n",
                             "\ndriver  none of NVIDIA's\n"}) {
        EXPECT_NE(text().find(line), std::string::npos) << line;
    }
}

TEST_F(DoctorReportTest, TheMapOfGpusAndHcas)
{
    add_far_hca();
    EXPECT_NE(
        text().find("GPU 0 NVIDIA H200 0000:04:00.0 NUMA 0   mlx5_0:1 0000:03:00.0 InfiniBand, "
                    "400 Gb/sec (4X NDR), same switch\n"),
        std::string::npos);
}

TEST_F(DoctorReportTest, AFindingHasThreeLinesAtMost)
{
    write("etc/openmpi/openmpi-mca-params.conf", "pml = ^ucx\n");
    set("UCX_TLS", "rc");
    facts.locked_memory = 1 << 20;
    const auto all = lines(text());
    size_t indented = 0;
    for (const std::string& line : all) {
        indented = line.starts_with(' ') ? indented + 1 : 0;
        EXPECT_LE(indented, 2u);
    }
    EXPECT_TRUE(all.back().starts_with("ok      ")) << all.back();
}

TEST_F(DoctorReportTest, WhatPassedIsShownOnDemand)
{
    EXPECT_EQ(text().find("kernel.sysfs"), std::string::npos);
    EXPECT_NE(text({.verbose = true}).find("ok      kernel.sysfs"), std::string::npos);
    EXPECT_NE(text({.verbose = true}).find("skipped roce.gid"), std::string::npos);
}

TEST_F(DoctorReportTest, WhatIsUnknownIsNamed)
{
    remove("boot");
    EXPECT_NE(text().find("1 unknown: kernel.dmabuf"), std::string::npos);
}

TEST_F(DoctorReportTest, ColourIsForTerminals)
{
    EXPECT_EQ(text().find('\033'), std::string::npos);
    EXPECT_NE(text({.colour = true}).find('\033'), std::string::npos);
}

TEST_F(DoctorReportTest, Json)
{
    add_far_hca();
    write("home/user/job/ucx.conf", "UCX_TLS=\xff\n");
    const auto parsed = nlohmann::json::parse(examined([](const Examination& examination) {
        return to_json(examination, "2026-11-22T10:00:00Z");
    }));
    EXPECT_EQ(parsed["schema"], 1);
    EXPECT_EQ(parsed["host"], "n017");
    EXPECT_EQ(parsed["exit"], 2);
    EXPECT_EQ(parsed["findings"].size(), all_checks().size());
    EXPECT_EQ(parsed["gpus"][0]["model"], "NVIDIA H200");
    EXPECT_EQ(parsed["pairs"].size(), 2u);
    EXPECT_EQ(parsed["pairs"][1]["path"], "another NUMA node");
    EXPECT_EQ(parsed["hcas"][0]["provider"], "mlx5");
    EXPECT_EQ(parsed["ucx"][0]["path"], "/usr/lib/libucp.so.0");
}

} // namespace
} // namespace doctor_test
