// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the tests of softhca share, see softhca_fixture.hpp, and their main function: it runs the
// program once more with the library preloaded.
#include "softhca_fixture.hpp"
#include "../tap.hpp"

#include "preload.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kLimit{20};

void require(bool condition, const char* what)
{
    if (!condition) {
        throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
    }
}

} // namespace

struct softhca_counters counters()
{
    using Function = void (*)(struct softhca_counters*);
    struct softhca_counters result;
    reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, "softhca_counters"))(&result);
    return result;
}

Device::Device(unsigned index)
{
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    require(list != nullptr && index < static_cast<unsigned>(count), "device list");
    context = ibv_open_device(list[index]);
    ibv_free_device_list(list);
    require(context != nullptr, "open device");
    pd = ibv_alloc_pd(context);
    require(pd != nullptr, "alloc pd");
}

Device::~Device()
{
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
}

Endpoint::Endpoint(Device& owner, const Options& chosen) : Endpoint(owner, chosen, Reset{})
{
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = static_cast<unsigned>(options.access);
    require(ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
                0,
            "INIT");
}

Endpoint::Endpoint(Device& owner, const Options& chosen, Reset)
    : device(owner), options(chosen), buffer(chosen.buffer_size)
{
    mr = ibv_reg_mr(device.pd, buffer.data(), buffer.size(), kAllAccess);
    require(mr != nullptr, "register");
    cq = ibv_create_cq(device.context, static_cast<int>(4 * options.queue_depth), this,
                       options.channel, 0);
    require(cq != nullptr, "create cq");
    ibv_qp_init_attr init = {};
    init.send_cq = init.recv_cq = cq;
    init.srq = options.srq;
    init.qp_type = options.type;
    init.sq_sig_all = options.sig_all;
    init.cap = {options.queue_depth, options.queue_depth, options.sge, options.sge, 256};
    qp = ibv_create_qp(device.pd, &init);
    require(qp != nullptr, "create qp");
}

Endpoint::~Endpoint()
{
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

Address Endpoint::address() const
{
    ibv_port_attr port;
    require(ibv_query_port(device.context, 1, &port) == 0, "query port");
    Address result = {
        qp->qp_num, port.lid, {}, reinterpret_cast<std::uint64_t>(buffer.data()), mr->rkey};
    require(ibv_query_gid(device.context, 1, 0, &result.gid) == 0, "query gid");
    return result;
}

int Endpoint::to_rtr(const Address& peer)
{
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = peer.qp_number;
    attr.max_dest_rd_atomic = static_cast<std::uint8_t>(options.rd_atomic);
    attr.min_rnr_timer = static_cast<std::uint8_t>(options.min_rnr_timer);
    attr.ah_attr.dlid = peer.lid;
    attr.ah_attr.port_num = 1;
    if (peer.lid == 0) {
        attr.ah_attr.is_global = 1;
        attr.ah_attr.grh.dgid = peer.gid;
    }
    const int reliable = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | (options.type == IBV_QPT_RC ? reliable : 0));
}

int Endpoint::to_rts()
{
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = static_cast<std::uint8_t>(options.timeout);
    attr.retry_cnt = static_cast<std::uint8_t>(options.retry_count);
    attr.rnr_retry = static_cast<std::uint8_t>(options.rnr_retry);
    attr.max_rd_atomic = static_cast<std::uint8_t>(options.rd_atomic);
    const int reliable =
        IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    return ibv_modify_qp(
        qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | (options.type == IBV_QPT_RC ? reliable : 0));
}

int Endpoint::to_error()
{
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_ERR;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

void Endpoint::connect(const Address& peer)
{
    ASSERT_EQ(to_rtr(peer), 0);
    ASSERT_EQ(to_rts(), 0);
}

ibv_sge Endpoint::sge(std::size_t offset, std::uint32_t length) const
{
    return {reinterpret_cast<std::uint64_t>(buffer.data()) + offset, length, mr->lkey};
}

int Endpoint::post_receive(std::size_t offset, std::uint32_t length, std::uint64_t id)
{
    ibv_sge list = sge(offset, length);
    ibv_recv_wr wr = {id, nullptr, &list, 1};
    ibv_recv_wr* bad;
    return options.srq != nullptr ? ibv_post_srq_recv(options.srq, &wr, &bad)
                                  : ibv_post_recv(qp, &wr, &bad);
}

int Endpoint::post(ibv_send_wr& wr)
{
    ibv_send_wr* bad;
    return ibv_post_send(qp, &wr, &bad);
}

int Endpoint::post(ibv_wr_opcode opcode, ibv_sge list, std::uint64_t remote, std::uint32_t rkey,
                   std::uint64_t id, unsigned flags)
{
    ibv_send_wr wr = {};
    wr.wr_id = id;
    wr.sg_list = &list;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = flags;
    wr.wr.rdma = {remote, rkey};
    return post(wr);
}

int Endpoint::post_send(std::size_t offset, std::uint32_t length, std::uint64_t id, unsigned flags)
{
    return post(IBV_WR_SEND, sge(offset, length), 0, 0, id, flags);
}

int Endpoint::post_rdma(ibv_wr_opcode opcode, std::size_t offset, std::uint32_t length,
                        std::uint64_t remote, std::uint32_t rkey, std::uint64_t id, unsigned flags)
{
    return post(opcode, sge(offset, length), remote, rkey, id, flags);
}

int Endpoint::post_atomic(ibv_wr_opcode opcode, std::size_t offset, std::uint64_t remote,
                          std::uint32_t rkey, std::uint64_t compare_add, std::uint64_t swap)
{
    ibv_sge list = sge(offset, 8);
    ibv_send_wr wr = {};
    wr.sg_list = &list;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.atomic.remote_addr = remote;
    wr.wr.atomic.rkey = rkey;
    wr.wr.atomic.compare_add = compare_add;
    wr.wr.atomic.swap = swap;
    return post(wr);
}

ibv_wc Endpoint::next()
{
    return next_of(cq);
}

ibv_wc next_of(ibv_cq* cq)
{
    ibv_wc wc = {};
    const auto end = Clock::now() + kLimit;
    do {
        const int count = ibv_poll_cq(cq, 1, &wc);
        if (count == 1) {
            return wc;
        }
        EXPECT_EQ(count, 0);
    } while (Clock::now() < end);
    ADD_FAILURE() << "no completion";
    wc.status = static_cast<ibv_wc_status>(-1);
    return wc;
}

bool Endpoint::is_idle()
{
    const auto end = Clock::now() + std::chrono::milliseconds(50);
    ibv_wc wc;
    do {
        if (ibv_poll_cq(cq, 1, &wc) != 0) {
            return false;
        }
    } while (Clock::now() < end);
    return true;
}

ibv_qp_state Endpoint::state()
{
    ibv_qp_attr attr;
    ibv_qp_init_attr init;
    EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
}

void connect(Endpoint& a, Endpoint& b)
{
    a.connect(b.address());
    b.connect(a.address());
}

void fill(unsigned char* data, std::size_t size, unsigned seed)
{
    for (std::size_t i = 0; i < size; ++i) {
        data[i] = static_cast<unsigned char>(i * 31 + (i >> 8) + seed * 7 + 1);
    }
}

bool is_filled(const unsigned char* data, std::size_t size, unsigned seed)
{
    std::vector<unsigned char> expected(size);
    fill(expected.data(), size, seed);
    return size == 0 || std::memcmp(expected.data(), data, size) == 0;
}

int next_event(ibv_context* context)
{
    pollfd descriptor = {context->async_fd, POLLIN, 0};
    ibv_async_event event;
    if (poll(&descriptor, 1, 5000) != 1 || ibv_get_async_event(context, &event) != 0) {
        return -1;
    }
    ibv_ack_async_event(&event);
    return event.event_type;
}

void Child::Link::write(const void* data, std::size_t size)
{
    require(::write(fd_, data, size) == static_cast<ssize_t>(size), "write to child");
}

void Child::Link::read(void* data, std::size_t size)
{
    require(recv(fd_, data, size, MSG_WAITALL) == static_cast<ssize_t>(size), "read from child");
}

Child::Child(const std::function<void(Link&)>& body) : pid_(-1), fd_(-1), link_(-1)
{
    int fds[2];
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "socketpair");
    pid_ = fork();
    require(pid_ >= 0, "fork");
    if (pid_ == 0) {
        close(fds[0]);
        alarm(50);
        Link link(fds[1]);
        try {
            body(link);
        } catch (const std::exception& error) {
            ADD_FAILURE() << error.what();
        }
        std::fflush(nullptr);
        std::exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    close(fds[1]);
    fd_ = fds[0];
    link_ = Link(fd_);
}

Child::~Child()
{
    if (pid_ > 0) {
        kill();
    }
    close(fd_);
}

void Child::kill()
{
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
}

void Child::leave_zombie()
{
    ::kill(pid_, SIGKILL);
    await_death();
}

void Child::await_death()
{
    siginfo_t info;
    require(waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) == 0, "waitid");
}

void Child::join()
{
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
    pid_ = -1;
}

Address meet(Child::Link& link, Endpoint& endpoint)
{
    link.put(endpoint.address());
    const Address peer = link.get<Address>();
    endpoint.connect(peer);
    link.put('r'); // ready
    link.get<char>();
    return peer;
}

bool run_tests(const std::string& filter, const std::vector<std::string>& environment)
{
    const pid_t pid = fork();
    if (pid == 0) {
        // What becomes of its ports concerns nobody else.
        const char* own = std::getenv("SOFTHCA_FABRIC");
        const std::string fabric =
            std::string(own == nullptr ? "test" : own) + "-" + std::to_string(getpid());
        setenv("SOFTHCA_FABRIC", fabric.c_str(), 1);
        for (const std::string& setting : environment) {
            putenv(strdup(setting.c_str()));
        }
        const std::string argument = "--gtest_filter=" + filter;
        execl("/proc/self/exe", "softhca_test", argument.c_str(), "--gtest_brief=1",
              "--gtest_also_run_disabled_tests", nullptr);
        _exit(127);
    }
    int status = 0;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char** argv)
{
    run_on_emulated_hca(argv);
    return run_tests(argc, argv);
}
