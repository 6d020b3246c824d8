// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Interfaces and endpoints that a forked child has inherited: CUDA does not work there. Whatever is
// asked of them ends with an error, of which one line tells, and the parent goes on as before.
#include "../tap.hpp"
#include "copy_support.hpp"
#include "ipc_owner.hpp"

#include "cuda/driver.hpp"
#include "streams/device_streams.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace copy_test {
namespace {

constexpr size_t kLength = 1 << 16;
constexpr char kCause[] = "does not work in a forked child";

struct Outcome {
    int status;       // of the child: what was returned; negative: it died of a signal
    std::string text; // that it wrote, UCX's log
};

// In a forked child, for 20 s at most.
Outcome in_child(const std::function<int()>& body)
{
    int ends[2];
    if (pipe(ends) != 0) {
        throw std::runtime_error("pipe");
    }
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        alarm(20);
        int status = 99;
        try {
            status = body();
        } catch (const std::exception& error) {
            fprintf(stderr, "%s\n", error.what());
        }
        fflush(stdout);
        _exit(status);
    }
    close(ends[1]);
    Outcome outcome{};
    char bytes[4096];
    for (ssize_t got; (got = read(ends[0], bytes, sizeof(bytes))) > 0;) {
        outcome.text.append(bytes, static_cast<size_t>(got));
    }
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    return outcome;
}

size_t times(const std::string& text, const std::string& part)
{
    size_t count = 0;
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) {
        ++count;
    }
    return count;
}

Owner* owner; // made before CUDA is used

// Something that copies, with an endpoint; an operation on it has kLength bytes.
struct Copier {
    std::unique_ptr<Transport> transport;
    uint64_t remote = 0;
    uct_rkey_t rkey = UCT_INVALID_RKEY;
    bool has_short = false;
    std::function<void()> release = [] {};

    ucs_status_t put(const Buffer& local, uct_completion_t* completion) const
    {
        const uct_iov_t iov = {local.data(), kLength, UCT_MEM_HANDLE_NULL, 0, 1};
        return uct_ep_put_zcopy(transport->ep(), &iov, 1, remote, rkey, completion);
    }
    ucs_status_t get(const Buffer& local, uct_completion_t* completion) const
    {
        const uct_iov_t iov = {local.data(), kLength, UCT_MEM_HANDLE_NULL, 0, 1};
        return uct_ep_get_zcopy(transport->ep(), &iov, 1, remote, rkey, completion);
    }
};

class Fork : public testing::TestWithParam<const char*> {
  protected:
    void SetUp() override
    {
        primary_context(0);
        local_.emplace(Memory::device, kLength, primary_context(0));
        host_.emplace(Memory::host, kLength);
        remote_.emplace(Memory::device, kLength, primary_context(0));
        if (strcmp(GetParam(), "copy") == 0) {
            make_copy();
        } else {
            make_ipc();
        }
    }
    void TearDown() override
    {
        copier_.release();
        copier_.transport.reset();
    }

    // Fills the memory of the endpoint and reads it again.
    void exchange()
    {
        Buffer back(Memory::device, kLength, primary_context(0));
        local_->fill(++seed_);
        Completion put, got;
        ASSERT_EQ(copier_.put(*local_, &put), UCS_INPROGRESS);
        copier_.transport->wait(put);
        ASSERT_EQ(copier_.get(back, &got), UCS_INPROGRESS);
        copier_.transport->wait(got);
        EXPECT_EQ(put.status, UCS_OK);
        EXPECT_EQ(got.status, UCS_OK);
        EXPECT_TRUE(back.holds(seed_));
    }

    Copier copier_;
    std::optional<Buffer> local_, host_, remote_;
    unsigned seed_ = 0;

  private:
    void make_copy()
    {
        copier_.transport = std::make_unique<Transport>();
        copier_.remote = remote_->address();
        copier_.has_short = true;
    }
    void make_ipc()
    {
        opened_.emplace(owner->allocate(1), primary_context(0));
        copier_.transport = opened_->connect();
        copier_.remote = opened_->address();
        copier_.rkey = opened_->rkey();
        copier_.release = [this] { opened_.reset(); };
    }

    std::optional<Opened> opened_;
};

INSTANTIATE_TEST_SUITE_P(, Fork, testing::Values("copy", "ipc"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Fork, OperationsOfAChildFailAndAreToldOnce)
{
    exchange();
    const Outcome outcome = in_child([&] {
        Completion completion;
        for (unsigned round = 0; round < 3; ++round) {
            for (const Buffer* local : {&*local_, &*host_}) {
                if (copier_.put(*local, &completion) != UCS_ERR_IO_ERROR ||
                    copier_.get(*local, &completion) != UCS_ERR_IO_ERROR) {
                    return 1;
                }
            }
            char some[8] = {};
            if (copier_.has_short &&
                (uct_ep_put_short(copier_.transport->ep(), some, 8, copier_.remote, copier_.rkey) !=
                     UCS_ERR_IO_ERROR ||
                 uct_ep_get_short(copier_.transport->ep(), some, 8, copier_.remote, copier_.rkey) !=
                     UCS_ERR_IO_ERROR)) {
                return 2;
            }
        }
        // Nothing of it is under way.
        if (uct_iface_flush(copier_.transport->iface(), 0, nullptr) != UCS_OK ||
            uct_ep_flush(copier_.transport->ep(), 0, nullptr) != UCS_OK ||
            uct_ep_fence(copier_.transport->ep(), 0) != UCS_OK) {
            return 3;
        }
        copier_.transport->progress();
        return completion.done() ? 4 : 0; // who is told by the return value is not told again
    });
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_EQ(times(outcome.text, kCause), 1u) << outcome.text;
    EXPECT_EQ(times(outcome.text, "\n"), 1u) << outcome.text;
    exchange();
}

// What the parent had under way ends in it, and for the child with an error.
TEST_P(Fork, WhatWasUnderWayFailsInTheChildAlone)
{
    constexpr unsigned kOperations = 8;
    exchange();
    Buffer back(Memory::device, kLength, primary_context(0));
    Completion completion(kOperations), flushed;
    for (unsigned i = 0; i < kOperations; ++i) {
        ASSERT_EQ(copier_.get(back, &completion), UCS_INPROGRESS);
    }
    ASSERT_EQ(uct_iface_flush(copier_.transport->iface(), 0, &flushed), UCS_INPROGRESS);
    const Outcome outcome = in_child([&] {
        copier_.transport->wait(completion);
        if (completion.status != UCS_ERR_IO_ERROR) {
            return 1;
        }
        copier_.transport->wait(flushed);
        return uct_iface_flush(copier_.transport->iface(), 0, nullptr) == UCS_OK ? 0 : 2;
    });
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_EQ(times(outcome.text, kCause), 1u) << outcome.text;
    EXPECT_EQ(times(outcome.text, "\n"), 1u) << outcome.text;
    copier_.transport->wait(completion);
    EXPECT_EQ(completion.status, UCS_OK);
    EXPECT_TRUE(back.holds(seed_));
    copier_.transport->wait(flushed);
}

// The descriptor that wakes up the parent is the child's too.
TEST_P(Fork, AChildDoesNotTakeTheParentsWakeUp)
{
    exchange();
    Buffer back(Memory::device, kLength, primary_context(0));
    Completion completion;
    ASSERT_EQ(copier_.get(back, &completion), UCS_INPROGRESS);
    int fd = -1;
    ASSERT_EQ(uct_iface_event_fd_get(copier_.transport->iface(), &fd), UCS_OK);
    ucs_status_t armed = uct_iface_event_arm(copier_.transport->iface(), UCT_EVENT_SEND_COMP);
    pollfd readable{fd, POLLIN, 0};
    if (armed == UCS_OK) { // else the copy has ended
        ASSERT_EQ(poll(&readable, 1, 20000), 1);
    }
    const Outcome outcome = in_child([&] {
        for (const ucs_status_t expected : {UCS_ERR_BUSY, UCS_OK}) {
            if (uct_iface_event_arm(copier_.transport->iface(), UCT_EVENT_SEND_COMP) != expected) {
                return 1;
            }
            copier_.transport->wait(completion);
        }
        return 0;
    });
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    if (armed == UCS_OK) {
        EXPECT_EQ(poll(&readable, 1, 0), 1);
    }
    copier_.transport->wait(completion);
    EXPECT_TRUE(back.holds(seed_));
}

TEST_P(Fork, AChildClosesWhatItInherited)
{
    exchange();
    const Outcome outcome = in_child([&] {
        copier_.release();
        copier_.transport.reset();
        return 0;
    });
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_EQ(outcome.text, "");
    exchange();
}

TEST_P(Fork, AChildClosesWhileCopiesAreUnderWay)
{
    exchange();
    Buffer back(Memory::device, kLength, primary_context(0));
    Completion completion;
    ASSERT_EQ(copier_.get(back, &completion), UCS_INPROGRESS);
    const Outcome outcome = in_child([&] {
        copier_.release();
        copier_.transport.reset();
        return 0;
    });
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    copier_.transport->wait(completion);
    EXPECT_EQ(completion.status, UCS_OK);
    EXPECT_TRUE(back.holds(seed_));
}

// A driver older than CUDA 12 does not say that a context has gone.
TEST(ForkStreams, OfAnOldDriver)
{
    gdr::cuda::Driver old = *gdr::cuda::driver();
    old.cuCtxGetId = nullptr;
    auto streams = std::make_unique<gdr::streams::DeviceStreams>(old, 0);
    {
        const Current current(streams->context());
        (*streams)[0];
    }
    const Outcome outcome = in_child([&] {
        streams.reset();
        return 0;
    });
    EXPECT_EQ(outcome.status, 0) << outcome.text;
}

} // namespace
} // namespace copy_test

int main(int argc, char** argv)
{
    setenv("SOFTCUDA_COPY_LATENCY_US", std::to_string(copy_test::kCopyLatencyMicroseconds).c_str(),
           1);
    setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 1);
    static copy_test::Owner first;
    copy_test::owner = &first;
    return run_tests(argc, argv);
}
