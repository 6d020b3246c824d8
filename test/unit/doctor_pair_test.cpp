// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/doctor: what follows from transfers between two hosts, and the links between them.
#include "doctor_fixture.hpp"

#include "doctor/pair.hpp"
#include "doctor/peer_process.hpp"

#include <algorithm>
#include <stdexcept>

namespace doctor_test {
namespace {

using namespace gdr::doctor;
using enum Consequence;

class DoctorPairTest : public DoctorTest {
  protected:
    DoctorPairTest()
    {
        // 50 GB/s by the ports, 63 by each PCIe.
        const Route route{"mlx5_0:1",
                          "0000:04:00.0",
                          "same switch",
                          {{"the port mlx5_0:1", 50}, {"the PCIe of mlx5_0", 63}},
                          {{"the PCIe of GPU 0000:04:00.0", 63}}};
        near.host = "n017";
        near.routes = {route};
        far.host = "n018";
        far.routes = {route};
        attempt.ports = {"mlx5_0:1", "mlx5_0:1"};
        attempt.connected = true;
        attempt.transfers = 54;
        attempt.figures = {{"host", 1.5, 48, 47}, {"device", 2.5, 46, 45}};
        attempt.direct_bytes = 1 << 30;
    }

    Finding found(const std::string& id, bool emulated = false) const
    {
        for (const Finding& finding : findings_of({attempt}, near, far, emulated)) {
            if (finding.id == id) {
                return finding;
            }
        }
        throw std::runtime_error("no finding " + id);
    }
    void is(Status status, const std::string& id, const std::string& words = "") const
    {
        const Finding finding = found(id);
        EXPECT_EQ(finding.result.status, status) << id << ": " << finding.result.summary;
        const std::string text = finding.result.summary + "\n" + finding.result.detail;
        EXPECT_NE(text.find(words), std::string::npos) << text;
    }

    Attempt attempt;
    RankReport near;
    RankReport far;
};

TEST_F(DoctorPairTest, ALinkThatDoesWhatItCan)
{
    is(Status::pass, "pair.connect");
    is(Status::pass, "pair.transfer", "every byte of 54 transfers");
    is(Status::pass, "pair.register");
    is(Status::pass, "pair.latency", "1.5 us");
    is(Status::pass, "pair.bandwidth", "45.0 GB/s of the 50.0 of the port mlx5_0:1 on n017");
}

TEST_F(DoctorPairTest, NoTransfers)
{
    attempt = {};
    attempt.ended_by = "on n018: ucp_init: No such device";
    is(Status::fail, "pair.connect", "No such device");
    for (const char* id : {"pair.transfer", "pair.register", "pair.bandwidth", "pair.latency"}) {
        is(Status::skipped, id);
    }
    EXPECT_EQ(found("pair.connect").consequence, cannot_run);
}

TEST_F(DoctorPairTest, WrongBytes)
{
    attempt.wrong = {"put of 8 bytes of device memory from n017 to n018"};
    is(Status::fail, "pair.transfer", "put of 8 bytes of device memory from n017 to n018");
    is(Status::fail, "pair.transfer", "1 of 54 transfers");
}

TEST_F(DoctorPairTest, ATransferThatFails)
{
    attempt.ended_by = "on n018: ucp_get does not end";
    is(Status::fail, "pair.transfer", "ucp_get does not end");
    is(Status::pass, "pair.connect");
}

TEST_F(DoctorPairTest, MemoryThatIsRefused)
{
    attempt.refused = {"device memory on n018: ucp_mem_map: Input/output error"};
    is(Status::fail, "pair.register", "device memory on n018");
    EXPECT_EQ(found("pair.register").consequence, no_gpudirect);
}

TEST_F(DoctorPairTest, GpuMemoryIsStaged)
{
    attempt.staged_bytes = 2ull << 30;
    attempt.log = {"gdr: GPU 0 (NVIDIA H200) with mlx5_0: no GPUDirect RDMA"};
    attempt.figures[1].back = 12;
    is(Status::fail, "pair.register", "GPU memory is staged");
    is(Status::fail, "pair.register", "no GPUDirect RDMA");
    is(Status::fail, "pair.bandwidth", "copied through host memory (pair.register)");
}

TEST_F(DoctorPairTest, AProgramThatDiesOfStagedMemoryHasThatForItsCause)
{
    attempt.staged_bytes = 2ull << 30;
    attempt.ended_by = "the process on n018 ended: the CPU touched GPU memory";
    EXPECT_EQ(found("pair.transfer").consequence, no_gpudirect);
    attempt.staged_bytes = 0;
    EXPECT_EQ(found("pair.transfer").consequence, cannot_run);
}

TEST_F(DoctorPairTest, WithoutGpus)
{
    attempt.figures.pop_back();
    attempt.direct_bytes = 0;
    is(Status::pass, "pair.register", "there is no GPU");
    is(Status::pass, "pair.bandwidth", "host memory has 47.0 GB/s of the 50.0");
}

TEST_F(DoctorPairTest, TheNetworkIsSlow)
{
    attempt.figures[0].there = 20;
    attempt.figures[1].there = 20;
    is(Status::fail, "pair.bandwidth",
       "host memory has 20.0 GB/s of the 50.0 of the port mlx5_0:1 on n017");
    is(Status::fail, "pair.bandwidth", "the network between the ports");
}

TEST_F(DoctorPairTest, ThePcieOfTheHcaIsSlow)
{
    far.routes[0].of_hca[1].rate = 15.8;
    attempt.figures = {{"host", 1.5, 14, 14}, {"device", 2.5, 14, 14}};
    is(Status::fail, "pair.bandwidth",
       "GPU memory has 14.0 GB/s of the 15.8 of the PCIe of mlx5_0 on n018");
    is(Status::fail, "pair.bandwidth", "slow link of the chain");
}

TEST_F(DoctorPairTest, ThePcieOfTheGpuIsSlow)
{
    near.routes[0].of_gpu[0].rate = 15.8;
    attempt.figures[1] = {"device", 2.5, 14, 14};
    is(Status::fail, "pair.bandwidth", "of the PCIe of GPU 0000:04:00.0 on n017");
}

TEST_F(DoctorPairTest, GpuAndHcaAreFarFromEachOther)
{
    far.routes[0].distance = "another NUMA node";
    attempt.figures[1].back = 11;
    is(Status::fail, "pair.bandwidth",
       "GPU 0000:04:00.0 and mlx5_0:1 on n018 are far from each other (another NUMA node)");
}

TEST_F(DoctorPairTest, AcsIsInTheWay)
{
    attempt.figures[1].back = 11;
    is(Status::fail, "pair.bandwidth", "ACS or an IOMMU");
}

TEST_F(DoctorPairTest, AHighLatency)
{
    attempt.figures[0].latency = 60;
    is(Status::fail, "pair.latency", "60.0 us");
}

TEST_F(DoctorPairTest, FiguresOfEmulatedDevicesSayNothing)
{
    attempt.figures[0].there = 1;
    attempt.figures[0].latency = 60;
    for (const char* id : {"pair.bandwidth", "pair.latency"}) {
        EXPECT_EQ(found(id, true).result.status, Status::skipped);
        EXPECT_EQ(found(id, true).result.summary, "emulated devices: figures say nothing");
    }
}

TEST_F(DoctorPairTest, LinksThatTheSystemDoesNotShow)
{
    near.routes.clear();
    far.routes.clear();
    is(Status::unknown, "pair.bandwidth");
}

TEST_F(DoctorPairTest, EachPortThatFailsIsNamed)
{
    Attempt other = attempt;
    other.ports = {"mlx5_1:1", "mlx5_1:1"};
    other.staged_bytes = 2ull << 30;
    const std::vector<Finding> findings = findings_of({attempt, other}, near, far, false);
    EXPECT_EQ(std::ranges::count(findings, "pair.connect", &Finding::id), 1);
    EXPECT_EQ(std::ranges::count(findings, "pair.register", &Finding::id), 1);
    const auto staged = std::ranges::find(findings, "pair.register", &Finding::id);
    EXPECT_TRUE(staged->result.summary.starts_with("mlx5_1:1: ")) << staged->result.summary;
}

TEST_F(DoctorPairTest, RoutesOfAMachine)
{
    const Root its_root(root(), facts);
    const std::vector<Route> all = routes(Machine(its_root));
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].port, "mlx5_0:1");
    EXPECT_EQ(all[0].gpu, "0000:04:00.0");
    EXPECT_EQ(all[0].distance, "same switch");
    ASSERT_EQ(all[0].of_hca.size(), 2U);
    EXPECT_EQ(all[0].of_hca[0].name, "the port mlx5_0:1");
    EXPECT_GT(all[0].of_hca[0].rate, 0);
    EXPECT_EQ(all[0].of_hca[1].name, "the PCIe of mlx5_0");
    ASSERT_EQ(all[0].of_gpu.size(), 1U);
}

TEST_F(DoctorPairTest, RatesOfLinks)
{
    EXPECT_DOUBLE_EQ(rate_of_port("400 Gb/sec (4X NDR)"), 50);
    EXPECT_DOUBLE_EQ(rate_of_port(""), 0);
    EXPECT_NEAR(rate_of_lanes("16.0 GT/s PCIe", "16"), 31.5, 0.1);
    EXPECT_DOUBLE_EQ(rate_of_lanes("2.5 GT/s PCIe", "1"), 0.25);
    EXPECT_DOUBLE_EQ(rate_of_lanes("Unknown", "63"), 0);
}

TEST_F(DoctorPairTest, ARankTellsItsRoutes)
{
    const Root its_root(root(), facts);
    const Machine machine(its_root);
    const RankReport told = read_rank_report(to_text(report_of(1, Examination(machine))));
    ASSERT_EQ(told.routes.size(), 1U);
    EXPECT_EQ(told.routes[0].of_hca[0].rate, routes(machine)[0].of_hca[0].rate);
}

// What a call throws.
template <class Call>
std::string error_of(const Call& call)
{
    try {
        call();
    } catch (const std::runtime_error& error) {
        return error.what();
    }
    return "";
}

// What is said if nothing but this is on the other host.
std::string error_with(const std::string& script)
{
    PeerProcess peer("n018", {"sh", "-c", script});
    return error_of([&] { peer.line(); });
}

TEST_F(DoctorPairTest, LinesOfAPeer)
{
    PeerProcess peer("n018",
                     {"sh", "-c",
                      "echo 'Welcome to n018'; echo 'peer: hello'; printf 'No end of line'; "
                      "read word; echo \"ucx-gdr-peer: ok $word\"; "
                      "echo 'ucx-gdr-peer: failed no memory'; read word; echo gone >&2"});
    peer.say("hello");
    EXPECT_EQ(peer.answer(), "hello");
    EXPECT_EQ(error_of([&] { peer.answer(); }), "on n018: no memory");
    peer.say("end");
    EXPECT_EQ(error_of([&] { peer.answer(); }), "the process on n018 ended: gone");
}

TEST_F(DoctorPairTest, LastWordsOfAPeer)
{
    EXPECT_EQ(error_with("true"), "the process on n018 ended");
    EXPECT_EQ(error_with("echo Welcome; echo closed; echo; exit 1"),
              "the process on n018 ended with status 1: closed");
    EXPECT_EQ(error_with("echo Welcome; echo refused >&2; exit 255"),
              "the process on n018 ended with status 255: refused");
    EXPECT_EQ(error_with("kill -KILL $$"), "the process on n018 ended by signal 9");
}

// Without its partner, a transfer would not end for long.
TEST_F(DoctorPairTest, APartnerThatEnds)
{
    const auto error_beside = [&](const std::string& script) {
        PeerProcess peer("n017", {"sh", "-c", "read word"});
        PeerProcess partner("n018", {"sh", "-c", script});
        peer.needs(&partner);
        partner.needs(&peer);
        return error_of([&] { peer.answer(); });
    };
    EXPECT_EQ(error_beside("echo gone >&2; exit 3"),
              "the process on n018 ended with status 3: gone");
    EXPECT_EQ(error_beside("echo ucx-gdr-peer: ok; echo ucx-gdr-peer: failed no UCX; exit 1"),
              "on n018: no UCX");
}

// What came before an answer is not why it ended after that.
TEST_F(DoctorPairTest, NotesOfAPeerAreNoLastWords)
{
    PeerProcess peer("n018", {"sh", "-c",
                              "echo Welcome; echo 'no GPU' >&2; echo ucx-gdr-peer: ok; "
                              "read word; exit 255"});
    peer.answer();
    peer.say("quit");
    EXPECT_EQ(error_of([&] { peer.answer(); }), "the process on n018 ended with status 255");
}

TEST_F(DoctorPairTest, APeerThatWritesWithoutEnd)
{
    EXPECT_EQ(error_with("cat /dev/zero"), "n018 writes what is not ucx-gdr's, without end");
}

TEST_F(DoctorPairTest, APeerThatCannotBeStarted)
{
    EXPECT_THROW(PeerProcess("n018", {"/nonexistent/ssh"}), std::system_error);
}

} // namespace
} // namespace doctor_test
