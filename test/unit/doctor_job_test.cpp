// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/doctor: the ranks of a job.
#include "doctor_fixture.hpp"

#include "doctor/exchange.hpp"
#include "doctor/job.hpp"

#include <chrono>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <nlohmann/json.hpp>

namespace doctor_test {
namespace {

using namespace gdr::doctor;

class DoctorJobTest : public DoctorTest {
  protected:
    // The machine as it is now becomes the next rank.
    void add_rank(const std::string& ucx_version = "1.18.1")
    {
        facts.ucx_version = ucx_version;
        const Root its_root(root(), facts);
        const Machine machine(its_root);
        const Examination examination(machine);
        const RankReport report = report_of(static_cast<unsigned>(reports_.size()), examination);
        reports_.push_back(read_rank_report(to_text(report)));
    }
    Job job() const { return {reports_, static_cast<unsigned>(reports_.size())}; }
    std::string text() const { return report(job(), {}); }
    void tells(const std::string& words) const
    {
        EXPECT_NE(text().find(words), std::string::npos) << text();
    }

    std::vector<RankReport> reports_;
};

TEST_F(DoctorJobTest, RanksThatHaveTheSame)
{
    add_rank();
    add_rank();
    EXPECT_EQ(worst(job().plain_findings()), Consequence::none) << text();
    tells(
        "job of 2 ranks on 1 host: nothing is in the way of GPUDirect RDMA (0 errors, 0 warnings)");
    tells("on n017 (ranks 0-1): nothing is in the way");
}

TEST_F(DoctorJobTest, AFindingOfAllRanksStandsOnce)
{
    set("UCX_TLS", "rc");
    add_rank();
    add_rank();
    EXPECT_EQ(text().find("ucx.env"), text().rfind("ucx.env"));
    tells("ERROR   ucx.env              UCX_TLS=rc leaves gdr out");
}

TEST_F(DoctorJobTest, AFindingOfSomeNamesThem)
{
    add_rank();
    facts.host = "n018";
    facts.locked_memory = 1 << 20;
    add_rank();
    add_rank();
    tells("ERROR   limits.memlock       on n018 (ranks 1-2): 1 MiB may be locked");
    tells("WARNING job.limits           locked memory differs: 1 MiB on n018 (ranks 1-2); "
          "unlimited on "
          "n017 (rank 0)");
    tells("on n018 (ranks 1-2): no GPUDirect RDMA");
}

TEST_F(DoctorJobTest, VersionsDiffer)
{
    add_rank();
    facts.host = "n018";
    add_rank("1.13.1");
    tells(
        "WARNING launch.mixed         UCX differs: 1.13.1, /usr/lib/libucp.so.0 on n018 (rank 1); "
        "1.18.1, ");
    EXPECT_EQ(worst(job().plain_findings()), Consequence::loss);
}

TEST_F(DoctorJobTest, DriversDiffer)
{
    add_rank();
    write("proc/driver/nvidia/version",
          "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.10  Release Build\n");
    add_rank();
    tells("launch.mixed         the GPU driver differs: ");
    tells("570.10, open modules on n017 (rank 1)");
}

TEST_F(DoctorJobTest, DevicesDiffer)
{
    add_rank();
    add_far_hca();
    add_rank();
    tells("job.devices          HCAs differ: ");
}

TEST_F(DoctorJobTest, VariablesDiffer)
{
    set("UCX_RNDV_THRESH", "8k");
    add_rank();
    facts.environment.erase("UCX_RNDV_THRESH");
    add_rank();
    tells(
        "job.env              UCX_RNDV_THRESH differs: 8k on n017 (rank 0); none on n017 (rank 1)");
}

TEST_F(DoctorJobTest, EachRankHasItsOwnGpuAndHca)
{
    for (const char* number : {"0", "1"}) {
        set("CUDA_VISIBLE_DEVICES", number);
        set("UCX_NET_DEVICES", "mlx5_0:1");
        add_rank();
        facts.environment.erase("UCX_NET_DEVICES");
    }
    EXPECT_EQ(text().find("differ"), std::string::npos) << text();
}

// A login by ssh has not what a shell's start sets for compilers.
TEST_F(DoctorJobTest, VariablesOfCompilersMayDiffer)
{
    set("CUDA_HOME", "/usr/local/cuda");
    add_rank();
    facts.environment.erase("CUDA_HOME");
    add_rank();
    EXPECT_EQ(text().find("differ"), std::string::npos) << text();
}

TEST_F(DoctorJobTest, NamespacesDifferWithinAHost)
{
    link("proc/self/ns/pid", "pid:[1]");
    add_rank();
    remove("proc/self/ns/pid");
    link("proc/self/ns/pid", "pid:[2]");
    facts.host = "n018";
    add_rank();
    EXPECT_EQ(text().find("differ"), std::string::npos) << text();
    facts.host = "n017";
    add_rank();
    tells(
        "ct.ns                the pid namespace differs: pid:[1] on n017 (rank 0); pid:[2] on n017 "
        "(rank 2)");
}

TEST_F(DoctorJobTest, TheMtuDiffers)
{
    make_ethernet();
    write(std::string(kHca) + "/net/eth0/mtu", "9000\n");
    add_rank();
    write(std::string(kHca) + "/net/eth0/mtu", "1500\n");
    add_rank();
    tells("roce.mtu             the MTU of mlx5_0 differs: 1500 on n017 (rank 1); 9000 on ");
}

TEST_F(DoctorJobTest, SilentRanks)
{
    add_rank();
    const Job some(reports_, 4);
    EXPECT_EQ(worst(some.plain_findings()), Consequence::cannot_run);
    EXPECT_NE(report(some, {}).find("ERROR   job.ranks            nothing was heard of ranks 1-3"),
              std::string::npos)
        << report(some, {});
}

TEST_F(DoctorJobTest, Json)
{
    add_rank();
    set("UCX_TLS", "rc");
    add_rank();
    const auto parsed = nlohmann::json::parse(to_json(job(), "2026-11-22T10:00:00Z"));
    EXPECT_EQ(parsed["size"], 2);
    EXPECT_EQ(parsed["ranks"][0]["exit"], 0);
    EXPECT_EQ(parsed["ranks"][1]["exit"], 2);
    EXPECT_EQ(parsed["exit"], 2);
    for (const auto& finding : parsed["findings"]) {
        if (finding["status"] == "fail" && finding["id"] == "ucx.env") {
            EXPECT_EQ(finding["ranks"], std::vector{1});
        }
    }
}

class DoctorExchangeTest : public DoctorTest {
  protected:
    Exchange exchange(std::chrono::milliseconds patience) const
    {
        return {root(), "job/1", patience};
    }
    bool is_clean() const
    {
        for (const auto& entry : std::filesystem::directory_iterator(root())) {
            if (entry.path().filename().native().starts_with(".ucx-gdr")) {
                return false;
            }
        }
        return true;
    }
};

TEST_F(DoctorExchangeTest, TheFirstHearsTheOthers)
{
    std::vector<std::thread> others;
    for (unsigned rank = 1; rank < 4; ++rank) {
        others.emplace_back([&, rank] {
            exchange(std::chrono::seconds(20)).tell(rank, "of " + std::to_string(rank));
        });
    }
    EXPECT_EQ(exchange(std::chrono::seconds(20)).gather(3),
              (std::vector<std::string>{"of 1", "of 2", "of 3"}));
    for (std::thread& other : others) {
        other.join();
    }
    EXPECT_TRUE(is_clean());
}

TEST_F(DoctorExchangeTest, WhatAnEarlierJobLeftIsNoneOfThisOnes)
{
    write(".ucx-gdr-doctor-job-1/round", "77");
    write(".ucx-gdr-doctor-job-1/1.77", "stale");
    std::thread other([&] { exchange(std::chrono::seconds(20)).tell(1, "fresh"); });
    std::this_thread::sleep_for(std::chrono::milliseconds(100)); // it has told the earlier job
    EXPECT_EQ(exchange(std::chrono::seconds(20)).gather(1), (std::vector<std::string>{"fresh"}));
    other.join();
    EXPECT_TRUE(is_clean());
}

TEST_F(DoctorExchangeTest, TheFirstGoesOnWithoutSilentRanks)
{
    EXPECT_TRUE(exchange(std::chrono::milliseconds(50)).gather(1).empty());
    EXPECT_TRUE(is_clean());
}

TEST_F(DoctorExchangeTest, ARankThatSeesNoFirstOne)
{
    EXPECT_THROW(exchange(std::chrono::milliseconds(50)).tell(1, ""), std::runtime_error);
}

TEST_F(DoctorExchangeTest, ADirectoryThatIsNotThere)
{
    EXPECT_THROW(Exchange(root() / "nowhere", "", std::chrono::seconds(1)).gather(1),
                 std::runtime_error);
}

} // namespace
} // namespace doctor_test
