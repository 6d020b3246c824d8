// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Fault injection in softhca: every rule, each in a process of its own, and rules that are none.
#include "softhca_fixture.hpp"

#include <chrono>

namespace {

using Clock = std::chrono::steady_clock;

class DISABLED_Faults : public ::testing::Test {
  protected:
    Device device;

    ibv_port_state port_state()
    {
        ibv_port_attr port;
        EXPECT_EQ(ibv_query_port(device.context, 1, &port), 0);
        return port.state;
    }
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
    EXPECT_EQ(port_state(), IBV_PORT_ACTIVE);
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
    EXPECT_EQ(port_state(), IBV_PORT_ACTIVE);
}

// SOFTHCA_FAULTS="down 100000 at 1"
TEST_F(DISABLED_Faults, PortStaysDown)
{
    Endpoint a(device), b(device);
    connect(a, b);
    ASSERT_EQ(a.post_send(0, 8), 0);
    EXPECT_EQ(port_state(), IBV_PORT_DOWN);
    EXPECT_EQ(a.next().status, IBV_WC_RETRY_EXC_ERR);
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

TEST(DISABLED_NoFaults, AllIsWell)
{
    Device device;
    Endpoint a(device), b(device);
    connect(a, b);
    for (unsigned i = 0; i < 5; ++i) {
        ASSERT_EQ(b.post_receive(0, 8), 0);
        ASSERT_EQ(a.post_send(0, 8), 0);
        EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
        EXPECT_EQ(b.next().status, IBV_WC_SUCCESS);
    }
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
    EXPECT_TRUE(run_tests("DISABLED_FaultsOfProcesses.Kill", {"SOFTHCA_FAULTS=kill at 3"}));
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
