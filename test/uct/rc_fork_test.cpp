// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A process that forks amid transfers, on a kernel as before Linux 5.12 and on one of today.
#include "rc_support.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rc_test {
namespace {

constexpr size_t kLength = 64 << 10;
constexpr char kWarning[] = "this process forks";

// Whole pages, which nothing else is in.
class Pages {
  public:
    Pages()
        : data_(static_cast<char*>(
              mmap(nullptr, kLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)))
    {
    }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    ~Pages() { munmap(data_, kLength); }
    char* data() const { return data_; }
    std::string text() const { return {data_, kLength}; }
    void write(const std::string& text) { text.copy(data_, kLength); }

  private:
    char* data_;
};

// A child that lives as long as this object, and does nothing.
class Child {
  public:
    Child() : pid_(fork())
    {
        while (pid_ == 0) {
            pause();
        }
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child()
    {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }

  private:
    pid_t pid_;
};

// Runs a test below in a process of its own, where these variables are set.
Outcome run(const std::string& test, Variables variables)
{
    variables.emplace_back("SOFTHCA_FABRIC", "rc_test-fork-" + std::to_string(getpid()));
    return run_self(variables,
                    {"--gtest_filter=DISABLED_Fork." + test, "--gtest_also_run_disabled_tests"});
}

TEST(DISABLED_Fork, AmidTransfers)
{
    Node sender, receiver;
    const std::vector<Node*> nodes{&sender, &receiver};
    Pages source, target;
    Registered from(sender, source.data(), kLength), to(receiver, target.data(), kLength);
    Endpoint ep(sender, receiver);
    const auto exchange = [&](unsigned seed) {
        const std::string data = pattern(kLength, seed), message = pattern(4096, seed + 1);
        source.write(data);
        Completion completion;
        const uct_iov_t piece = from.piece(source.data(), kLength);
        const auto post = [&](auto operation) {
            completion.count = 1;
            return retry(nodes, [&] {
                const ucs_status_t status =
                    operation(ep, &piece, 1, reinterpret_cast<uint64_t>(target.data()), to.rkey(),
                              &completion);
                return status == UCS_INPROGRESS ? UCS_OK : status;
            });
        };
        ASSERT_EQ(post(uct_ep_put_zcopy), UCS_OK);
        ASSERT_TRUE(wait_until(
            nodes, [&] { return completion.count == 0; }, 20));
        EXPECT_TRUE(target.text() == data) << "put " << seed;
        target.write(message);
        ASSERT_EQ(post(uct_ep_get_zcopy), UCS_OK);
        ASSERT_TRUE(wait_until(
            nodes, [&] { return completion.count == 0; }, 20));
        EXPECT_TRUE(source.text() == target.text()) << "get " << seed;
        const size_t before = receiver.received_count;
        ASSERT_EQ(retry(nodes,
                        [&] {
                            const ssize_t sent = send_bcopy(ep, 1, message);
                            return sent < 0 ? static_cast<ucs_status_t>(sent) : UCS_OK;
                        }),
                  UCS_OK);
        ASSERT_TRUE(wait_until(
            nodes, [&] { return receiver.received_count > before; }, 20));
        EXPECT_TRUE(receiver.received.back().data == message) << "message " << seed;
    };
    exchange(1);
    const Child child;
    exchange(3);
    const Child another;
    exchange(5);
}

TEST(Fork, LeavesTransfersAlone)
{
    for (const char* copy_on_fork : {"no", "yes"}) {
        const Outcome outcome = run("AmidTransfers", {{"SOFTHCA_COPY_ON_FORK", copy_on_fork}});
        EXPECT_EQ(outcome.status, 0) << outcome.text;
        EXPECT_EQ(outcome.text.find(kWarning), std::string::npos) << outcome.text;
    }
}

TEST(DISABLED_Fork, WithADomain)
{
    Node node;
    const Child child;
    const Child another;
}

// Each time said once, and only where it matters.
TEST(Fork, IsWarnedOfWhereItMayDoHarm)
{
    ONLY_ON_SOFTHCA("softmlx5 does not answer whether the kernel copies registered pages on fork");
    const auto warnings = [](const Variables& variables) {
        const Outcome outcome = run("WithADomain", variables);
        EXPECT_EQ(outcome.status, 0) << outcome.text;
        const size_t first = outcome.text.find(kWarning);
        return first == std::string::npos                                    ? 0
               : outcome.text.find(kWarning, first + 1) == std::string::npos ? 1
                                                                             : 2;
    };
    EXPECT_EQ(warnings({{"SOFTHCA_COPY_ON_FORK", "no"}, {"UCX_GDR_RC_FORK_INIT", "n"}}), 1);
    EXPECT_EQ(warnings({{"SOFTHCA_COPY_ON_FORK", "no"}, {"UCX_GDR_RC_FORK_INIT", "y"}}), 0);
    EXPECT_EQ(warnings({{"SOFTHCA_COPY_ON_FORK", "yes"}, {"UCX_GDR_RC_FORK_INIT", "n"}}), 0);
}

// As if something else in the process had registered memory before.
TEST(DISABLED_Fork, TooLate)
{
    ibv_device** list = ibv_get_device_list(nullptr);
    ibv_context* context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ibv_pd* pd = ibv_alloc_pd(context);
    Pages pages;
    ibv_mr* mr = ibv_reg_mr(pd, pages.data(), kLength, IBV_ACCESS_LOCAL_WRITE);
    ASSERT_NE(mr, nullptr);
    {
        Node node;
        const Child child;
    }
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(Fork, TooLateForIt)
{
    ONLY_ON_SOFTHCA("softmlx5 does not answer whether the kernel copies registered pages on fork");
    const Outcome tried = run("TooLate", {{"SOFTHCA_COPY_ON_FORK", "no"}});
    EXPECT_EQ(tried.status, 0) << tried.text;
    EXPECT_NE(tried.text.find(kWarning), std::string::npos) << tried.text;
    EXPECT_NE(tried.text.find("ibv_fork_init() failed: Invalid argument"), std::string::npos)
        << tried.text;
    const Outcome wanted =
        run("TooLate",
            {{"SOFTHCA_COPY_ON_FORK", "no"}, {"UCX_GDR_RC_FORK_INIT", "y"}, {"UCX_TLS", "gdr"}});
    EXPECT_NE(wanted.status, 0) << wanted.text;
    EXPECT_NE(wanted.text.find("ibv_fork_init failed: Invalid argument"), std::string::npos)
        << wanted.text;
    const Outcome unneeded =
        run("TooLate", {{"SOFTHCA_COPY_ON_FORK", "yes"}, {"UCX_GDR_RC_FORK_INIT", "y"}});
    EXPECT_EQ(unneeded.status, 0) << unneeded.text;
}

// A program that leaves gdr out may count on its children having what another library of it
// registers.
TEST(DISABLED_Fork, IsNotPreparedFor)
{
    EXPECT_ANY_THROW(Node node); // there is no interface then
    EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_DISABLED);
}

TEST(Fork, IsNotPreparedForWithoutGdr)
{
    const Outcome outcome =
        run("IsNotPreparedFor", {{"SOFTHCA_COPY_ON_FORK", "no"}, {"UCX_TLS", "tcp,self"}});
    EXPECT_EQ(outcome.status, 0) << outcome.text;
}

} // namespace
} // namespace rc_test
