// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Fault injection in softhca: every rule, each in a process of its own, and rules that are none.
#include "softhca_fixture.hpp"

#include <chrono>
#include <cstdio>
#include <fstream>

#include <poll.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;

ibv_port_state port_state(const Device& device)
{
    ibv_port_attr port;
    EXPECT_EQ(ibv_query_port(device.context, 1, &port), 0);
    return port.state;
}

void expect_exchanges(Device& device)
{
    Endpoint a(device), b(device);
    connect(a, b);
    for (unsigned i = 0; i < 5; ++i) {
        ASSERT_EQ(b.post_receive(0, 8), 0);
        ASSERT_EQ(a.post_send(0, 8), 0);
        ASSERT_EQ(a.next().status, IBV_WC_SUCCESS);
        ASSERT_EQ(b.next().status, IBV_WC_SUCCESS);
    }
}

class DISABLED_Faults : public ::testing::Test {
  protected:
    Device device;
};

// SOFTHCA_FAULTS="softhca0 qp 1 error rem_op_err at 3"
TEST_F(DISABLED_Faults, Error)
{
    Endpoint a(device), b(device), c(device), d(device);
    connect(a, b);
    connect(c, d);
    for (unsigned i = 1; i <= 5; ++i) {
        ASSERT_EQ(d.post_receive(0, 8), 0);
        ASSERT_EQ(c.post_send(0, 8), 0); // not counted
        EXPECT_EQ(c.next().status, IBV_WC_SUCCESS);
        ASSERT_EQ(b.post_receive(0, 8, i), 0);
        ASSERT_EQ(a.post_send(0, 8, i), 0);
        const ibv_wc wc = a.next();
        EXPECT_EQ(wc.wr_id, i);
        EXPECT_EQ(wc.status, i < 3    ? IBV_WC_SUCCESS
                             : i == 3 ? IBV_WC_REM_OP_ERR
                                      : IBV_WC_WR_FLUSH_ERR);
        if (i < 3) {
            EXPECT_EQ(b.next().wr_id, i);
        }
    }
    EXPECT_TRUE(b.is_idle()); // the third was not executed
    EXPECT_EQ(a.state(), IBV_QPS_ERR);
}

// The failing request waits for others before it.
TEST_F(DISABLED_Faults, ErrorInTheQueue)
{
    Endpoint a(device), b(device);
    connect(a, b);
    for (unsigned i = 1; i <= 4; ++i) {
        ASSERT_EQ(a.post_send(0, 8, i), 0);
    }
    EXPECT_TRUE(a.is_idle());
    for (unsigned i = 1; i <= 4; ++i) {
        ASSERT_EQ(b.post_receive(0, 8, i), 0);
    }
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(a.next().status, IBV_WC_REM_OP_ERR);
    EXPECT_EQ(a.next().status, IBV_WC_WR_FLUSH_ERR);
}

// SOFTHCA_FAULTS="rnr 5"
TEST_F(DISABLED_Faults, RnrStorm)
{
    Options hasty;
    hasty.rnr_retry = 0;
    Endpoint a(device), b(device), c(device, hasty), d(device);
    connect(a, b);
    connect(c, d);
    const Address target = b.address();
    ASSERT_EQ(b.post_receive(0, 8, 1), 0);
    ASSERT_EQ(b.post_receive(0, 8, 2), 0);
    ASSERT_EQ(a.post_rdma(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 8, target.buffer, target.rkey, 1), 0);
    ASSERT_EQ(a.post_send(0, 8, 2), 0);
    ibv_wc wc;
    EXPECT_EQ(ibv_poll_cq(b.cq, 1, &wc), 0); // although receives are posted
    for (unsigned i = 1; i <= 2; ++i) {
        EXPECT_EQ(b.next().wr_id, i);
        EXPECT_EQ(a.next().wr_id, i);
    }
    ASSERT_EQ(d.post_receive(0, 8), 0);
    ASSERT_EQ(c.post_send(0, 8), 0);
    EXPECT_EQ(c.next().status, IBV_WC_RNR_RETRY_EXC_ERR);
}

// SOFTHCA_FAULTS="qp 1 drop at 2"
TEST_F(DISABLED_Faults, Drop)
{
    Endpoint a(device), b(device), c(device), d(device);
    connect(a, b);
    connect(c, d);
    for (unsigned i = 1; i <= 2; ++i) {
        ASSERT_EQ(b.post_receive(0, 8), 0);
        ASSERT_EQ(a.post_receive(0, 8), 0);
        ASSERT_EQ(a.post_send(0, 8, i), 0);
        EXPECT_EQ(a.next().status, i == 1 ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR);
    }
    EXPECT_EQ(b.next().opcode, IBV_WC_RECV);
    ASSERT_EQ(b.post_send(0, 8), 0); // nor does anybody reach it
    EXPECT_EQ(b.next().status, IBV_WC_RETRY_EXC_ERR);
    ASSERT_EQ(d.post_receive(0, 8), 0);
    ASSERT_EQ(c.post_send(0, 8), 0);
    EXPECT_EQ(c.next().status, IBV_WC_SUCCESS);
}

// SOFTHCA_FAULTS="drop at 2": the whole process.
TEST_F(DISABLED_Faults, DropAll)
{
    Endpoint a(device), b(device);
    connect(a, b);
    ASSERT_EQ(b.post_receive(0, 8), 0);
    ASSERT_EQ(a.post_send(0, 8), 0);
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    ASSERT_EQ(a.post_send(0, 8), 0);
    EXPECT_EQ(a.next().status, IBV_WC_RETRY_EXC_ERR);
    Endpoint c(device), d(device); // younger than the fault
    connect(c, d);
    ASSERT_EQ(d.post_receive(0, 8), 0);
    ASSERT_EQ(c.post_send(0, 8), 0);
    EXPECT_EQ(c.next().status, IBV_WC_RETRY_EXC_ERR);
}

// SOFTHCA_FAULTS="delay 40000 at 1"
TEST_F(DISABLED_Faults, Delay)
{
    Endpoint a(device), b(device);
    connect(a, b);
    ASSERT_EQ(b.post_receive(0, 8, 1), 0);
    ASSERT_EQ(b.post_receive(0, 8, 2), 0);
    const auto start = Clock::now();
    ASSERT_EQ(a.post_send(0, 8, 1), 0);
    ASSERT_EQ(a.post_send(0, 8, 2), 0); // must not overtake
    EXPECT_EQ(b.next().wr_id, 1u);
    EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(40));
    EXPECT_EQ(b.next().wr_id, 2u);
    EXPECT_EQ(a.next().wr_id, 1u);
    EXPECT_EQ(a.next().wr_id, 2u);
}

// SOFTHCA_FAULTS="down 300 at 1"
TEST_F(DISABLED_Faults, PortDown)
{
    Options patient;
    patient.timeout = 20; // 4.3 s
    Endpoint a(device, patient), b(device), c(device), d(device);
    connect(a, b);
    connect(c, d);
    Device second; // every open device is told
    EXPECT_EQ(port_state(device), IBV_PORT_ACTIVE);
    ASSERT_EQ(b.post_receive(0, 8), 0);
    ASSERT_EQ(d.post_receive(0, 8), 0);
    const auto start = Clock::now();
    ASSERT_EQ(a.post_send(0, 8), 0);
    ASSERT_EQ(c.post_send(0, 8), 0);
    EXPECT_EQ(next_event(device.context), IBV_EVENT_PORT_ERR);
    EXPECT_EQ(next_event(second.context), IBV_EVENT_PORT_ERR);
    EXPECT_EQ(c.next().status, IBV_WC_RETRY_EXC_ERR); // after 67 ms
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);       // when it is back
    EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(300));
    EXPECT_EQ(b.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(next_event(device.context), IBV_EVENT_PORT_ACTIVE);
    EXPECT_EQ(next_event(second.context), IBV_EVENT_PORT_ACTIVE);
    EXPECT_EQ(port_state(device), IBV_PORT_ACTIVE);
}

// SOFTHCA_FAULTS="down 100000 at 1"
TEST_F(DISABLED_Faults, PortStaysDown)
{
    Endpoint a(device), b(device);
    connect(a, b);
    ASSERT_EQ(a.post_send(0, 8), 0);
    EXPECT_EQ(port_state(device), IBV_PORT_DOWN);
    EXPECT_EQ(a.next().status, IBV_WC_RETRY_EXC_ERR);
}

// SOFTHCA_FAULTS="down 300 at start"
TEST_F(DISABLED_Faults, PortDownAtStart)
{
    EXPECT_EQ(port_state(device), IBV_PORT_DOWN);
    EXPECT_EQ(next_event(device.context), IBV_EVENT_PORT_ACTIVE); // nobody saw it go down
    EXPECT_EQ(port_state(device), IBV_PORT_ACTIVE);
    expect_exchanges(device);
}

// SOFTHCA_FAULTS="softhca1 down 100000 at start", and two HCAs
TEST_F(DISABLED_Faults, OnePortDownAtStart)
{
    EXPECT_EQ(port_state(device), IBV_PORT_ACTIVE);
    EXPECT_EQ(port_state(Device(1)), IBV_PORT_DOWN);
    expect_exchanges(device);
}

// SOFTHCA_FAULTS="kill at 3"
TEST(DISABLED_FaultsOfProcesses, Kill)
{
    Child child([](Child::Link& link) {
        Device device;
        Endpoint b(device);
        link.put(b.address());
        b.connect(link.get<Address>());
        for (unsigned i = 0; i < 3; ++i) {
            b.post_send(0, 8);
        }
        ADD_FAILURE() << "still alive";
    });
    Device device;
    Endpoint a(device);
    ASSERT_EQ(a.post_receive(0, 8), 0);
    ASSERT_EQ(a.post_receive(0, 8), 0);
    const Address peer = child.link().get<Address>();
    a.connect(peer);
    child.link().put(a.address());
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
    ASSERT_EQ(a.post_send(0, 8), 0); // nobody posts a receive for it
    EXPECT_EQ(a.next().status, IBV_WC_RETRY_EXC_ERR);
}

// SOFTHCA_FAULTS="qp 1 cut at 2"
TEST_F(DISABLED_Faults, CutOff)
{
    ibv_srq_init_attr init = {};
    init.attr.max_wr = 8;
    init.attr.max_sge = 1;
    ibv_srq* srq = ibv_create_srq(device.pd, &init);
    ASSERT_NE(srq, nullptr);
    {
        Options options;
        options.srq = srq;
        Endpoint a(device), b(device, options), c(device), d(device, options);
        connect(a, b);
        connect(c, d);
        for (unsigned i = 1; i <= 3; ++i) {
            ibv_sge sge = b.sge(0, 8);
            ibv_recv_wr wr{i, nullptr, &sge, 1}, *bad;
            ASSERT_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
        }
        ASSERT_EQ(a.post_send(0, 8), 0);
        EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
        EXPECT_EQ(b.next().wr_id, 1u);
        ASSERT_EQ(a.post_send(0, 8), 0);
        EXPECT_EQ(a.next().status, IBV_WC_RETRY_EXC_ERR);
        EXPECT_TRUE(b.is_idle()); // it has the second receive, and says nothing
        ASSERT_EQ(c.post_send(0, 8), 0);
        EXPECT_EQ(c.next().status, IBV_WC_SUCCESS);
        EXPECT_EQ(d.next().wr_id, 3u);
        ASSERT_EQ(b.to_error(), 0);
        EXPECT_EQ(next_event(device.context), IBV_EVENT_QP_LAST_WQE_REACHED);
        const ibv_wc wc = b.next();
        EXPECT_EQ(wc.wr_id, 2u);
        EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
    }
    ibv_destroy_srq(srq);
}

// SOFTHCA_FAULTS="modify 20000": three calls bring a queue pair to RTS.
TEST_F(DISABLED_Faults, SlowModify)
{
    const auto start = Clock::now();
    Endpoint a(device), b(device);
    connect(a, b);
    EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(120));
}

// SOFTHCA_FAULTS="unresolved 1 20000"
TEST_F(DISABLED_Faults, Unresolved)
{
    Endpoint a(device);
    for (const bool gone : {false, true}) {
        Address there = a.address();
        if (gone) {
            Device other(1);
            there = Endpoint(other).address();
        }
        ibv_ah_attr address = {};
        address.dlid = there.lid;
        address.is_global = 1;
        address.grh.dgid = there.gid;
        address.port_num = 1;
        const auto start = Clock::now();
        ibv_ah* ah = ibv_create_ah(device.pd, &address);
        if (gone) {
            EXPECT_EQ(errno, ETIMEDOUT);
            EXPECT_EQ(a.to_rtr(there), ETIMEDOUT);
            EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(40));
        }
        EXPECT_EQ(ah == nullptr, gone);
        if (ah != nullptr) {
            ibv_destroy_ah(ah);
        }
    }
}

TEST(DISABLED_NoFaults, AllIsWell)
{
    Device device;
    EXPECT_EQ(port_state(device), IBV_PORT_ACTIVE);
    expect_exchanges(device);
}

// Of a program that names no fabric, beside one that has faults and names none either.
TEST(DISABLED_NoFaults, Bystander)
{
    Device device;
    EXPECT_TRUE(run_tests("DISABLED_Faults.PortStaysDown",
                          {"SOFTHCA_FABRIC", "SOFTHCA_FAULTS=down 3000 at 1"}));
    EXPECT_EQ(port_state(device), IBV_PORT_ACTIVE);
    pollfd events = {device.context->async_fd, POLLIN, 0};
    EXPECT_EQ(poll(&events, 1, 0), 0);
    expect_exchanges(device);
}

TEST(DISABLED_Fabric, IsPrinted)
{
    ibv_gid gid;
    ASSERT_EQ(ibv_query_gid(Device().context, 1, 0, &gid), 0); // each fabric has its own
    std::printf("gid %016lx\n", static_cast<unsigned long>(gid.global.interface_id));
    std::fflush(stdout);
}

// SOFTHCA_FAULTS="softhca0 unusable 1", on Ethernet
TEST_F(DISABLED_Faults, UnusableGid)
{
    Endpoint a(device), b(device);
    for (const bool usable : {false, true}) {
        ibv_ah_attr address = {};
        address.is_global = 1;
        address.grh.dgid = b.address().gid;
        address.grh.sgid_index = usable ? 0 : 1;
        address.port_num = 1;
        ibv_ah* ah = ibv_create_ah(device.pd, &address);
        EXPECT_EQ(ah != nullptr, usable);
        if (ah != nullptr) {
            EXPECT_EQ(ibv_destroy_ah(ah), 0);
        }
    }
    connect(a, b); // by the first
}

TEST(Faults, Happen)
{
    const std::string error = "SOFTHCA_FAULTS=softhca0 qp 1 error rem_op_err at 3";
    EXPECT_TRUE(run_tests("DISABLED_Faults.Error", {error}));
    EXPECT_TRUE(run_tests("DISABLED_Faults.ErrorInTheQueue", {error}));
    EXPECT_TRUE(run_tests("DISABLED_Faults.RnrStorm", {"SOFTHCA_FAULTS=rnr 5"}));
    EXPECT_TRUE(run_tests("DISABLED_Faults.Drop", {"SOFTHCA_FAULTS=qp 1 drop at 2"}));
    EXPECT_TRUE(run_tests("DISABLED_Faults.DropAll", {"SOFTHCA_FAULTS=drop at 2"}));
    EXPECT_TRUE(run_tests("DISABLED_Faults.Delay", {"SOFTHCA_FAULTS=delay 40000 at 1"}));
    EXPECT_TRUE(run_tests("DISABLED_Faults.PortDown", {"SOFTHCA_FAULTS=down 300 at 1"}));
    EXPECT_TRUE(run_tests("DISABLED_Faults.PortStaysDown", {"SOFTHCA_FAULTS=down 100000 at 1"}));
    EXPECT_TRUE(run_tests("DISABLED_Faults.PortDownAtStart", {"SOFTHCA_FAULTS=down 300 at start"}));
    EXPECT_TRUE(run_tests("DISABLED_Faults.OnePortDownAtStart",
                          {"SOFTHCA_FAULTS=softhca1 down 100000 at start", "SOFTHCA_DEVICES=2"}));
    EXPECT_TRUE(run_tests("DISABLED_Faults.CutOff", {"SOFTHCA_FAULTS=qp 1 cut at 2"}));
    EXPECT_TRUE(run_tests("DISABLED_Faults.SlowModify", {"SOFTHCA_FAULTS=modify 20000"}));
    EXPECT_TRUE(run_tests("DISABLED_Faults.Unresolved",
                          {"SOFTHCA_FAULTS=unresolved 1 20000", "SOFTHCA_DEVICES=2"}));
    EXPECT_TRUE(run_tests("DISABLED_Faults.DeviceFatal", {"SOFTHCA_FAULTS=device_fatal at 2"}));
    EXPECT_TRUE(run_tests("DISABLED_Faults.CqError", {"SOFTHCA_FAULTS=cq_err at 2"}));
    EXPECT_TRUE(run_tests("DISABLED_Faults.SrqError", {"SOFTHCA_FAULTS=srq_err at 2"}));
    EXPECT_TRUE(run_tests("DISABLED_Faults.UnusableGid",
                          {"SOFTHCA_FAULTS=softhca0 unusable 1", "SOFTHCA_LINK_LAYER=ethernet"}));
    EXPECT_TRUE(run_tests("DISABLED_FaultsOfProcesses.Kill", {"SOFTHCA_FAULTS=kill at 3"}));
}

// What a killed process took down is up for the next one.
TEST(Faults, DieWithTheirProcess)
{
    const std::string fabric = "SOFTHCA_FABRIC=killed-" + std::to_string(getpid());
    EXPECT_FALSE(run_tests("DISABLED_Faults.PortStaysDown",
                           {fabric, "SOFTHCA_FAULTS=down 100000 at 1; kill at 1"}));
    EXPECT_TRUE(run_tests("DISABLED_NoFaults.AllIsWell", {fabric}));
}

TEST(Faults, DisturbOnlyWhoHasThem)
{
    EXPECT_TRUE(run_tests("DISABLED_NoFaults.Bystander", {"SOFTHCA_FABRIC"}));
}

// The processes of a job have the same rules, and meet.
TEST(Faults, HaveAFabricOfTheirOwn)
{
    EXPECT_TRUE(run_tests("DISABLED_FaultsOfProcesses.Kill",
                          {"SOFTHCA_FABRIC", "SOFTHCA_FAULTS=kill at 3"}));

    const auto fabric_of = [](std::vector<std::string> environment) {
        ::testing::internal::CaptureStdout();
        EXPECT_TRUE(run_tests("DISABLED_Fabric.IsPrinted", environment));
        const std::string said = ::testing::internal::GetCapturedStdout();
        const std::size_t at = said.find("gid ");
        EXPECT_NE(at, std::string::npos) << said;
        return said.substr(at, said.find('\n', at) - at);
    };
    const std::string name = "SOFTHCA_FABRIC=named-" + std::to_string(getpid());
    const std::string none = fabric_of({"SOFTHCA_FABRIC"});
    const std::string first = fabric_of({"SOFTHCA_FABRIC", "SOFTHCA_FAULTS=drop at 7"});
    EXPECT_NE(first, none);
    EXPECT_EQ(first, fabric_of({"SOFTHCA_FABRIC", "SOFTHCA_FAULTS=drop at 7"}));
    EXPECT_NE(first, fabric_of({"SOFTHCA_FABRIC", "SOFTHCA_FAULTS=drop at 8"}));
    EXPECT_EQ(none, fabric_of({"SOFTHCA_FABRIC", "SOFTHCA_FAULTS=# none"}));
    EXPECT_EQ(none, fabric_of({"SOFTHCA_FABRIC", "SOFTHCA_FAULTS=nonsense"}));
    EXPECT_EQ(fabric_of({name}), fabric_of({name, "SOFTHCA_FAULTS=drop at 7"}));
    EXPECT_NE(fabric_of({name}), none);

    const std::string path = ::testing::TempDir() + "softhca_rules_" + std::to_string(getpid());
    std::ofstream(path) << "drop at 7";
    EXPECT_EQ(first, fabric_of({"SOFTHCA_FABRIC", "SOFTHCA_FAULTS=" + path}));
    unlink(path.c_str());
}

// What is no rule is named with its line, and the others hold.
TEST(Faults, BadRulesAreNamed)
{
    const struct {
        const char *rules, *line, *complaint;
    } bad[] = {
        {"eror rem_op_err at 1", "line 1", "not \"eror\""},
        {"# a comment\n\nerror rem_op at 1", "line 3", "\"rem_op\" is no status"},
        {"error success at 1", "line 1", "\"success\" is no status"},
        {"drop", "line 1", "expected \"at\""},
        {"drop at 0", "line 1", "the number of a work request"},
        {"drop at 5x", "line 1", "not \"5x\""},
        {"delay at 1", "line 1", "expected microseconds"},
        {"down 5 at 1 2", "line 1", "nothing may follow"},
        {"softhca9 drop at 1", "line 1", "no HCA softhca9"},
        {"qp x drop at 1", "line 1", "the number of a queue pair"},
        {"rnr", "line 1", "expected a number of messages"},
        {"modify", "line 1", "expected microseconds"},
        {"unresolved softhca1 5", "line 1", "no HCA softhca"},
        {"unusable 7", "line 1", "no GID 7"},
        {"/nonexistent/rules", "SOFTHCA_FAULTS", "cannot read /nonexistent/rules"},
    };
    for (const auto& [rules, line, complaint] : bad) {
        ::testing::internal::CaptureStderr();
        EXPECT_TRUE(run_tests("DISABLED_NoFaults.*", {std::string("SOFTHCA_FAULTS=") + rules}));
        const std::string said = ::testing::internal::GetCapturedStderr();
        EXPECT_NE(said.find(line), std::string::npos) << rules << ": " << said;
        EXPECT_NE(said.find(complaint), std::string::npos) << rules << ": " << said;
    }
    ::testing::internal::CaptureStderr();
    EXPECT_TRUE(run_tests("DISABLED_Faults.Error",
                          {"SOFTHCA_FAULTS=nonsense;softhca0 qp 1 error rem_op_err at 3 # yes"}));
    EXPECT_NE(::testing::internal::GetCapturedStderr().find("nonsense"), std::string::npos);
}

} // namespace
