// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Asking for descriptors where something comes between: signals, and owners that answer late, or
// not; and what forked children have of the socket that they are given by. No GPU is needed.
#include "abi/host.hpp"
#include "ipc/descriptor_message.hpp"
#include "ipc/descriptor_server.hpp"
#include "ipc/process.hpp"
#include "ipc/silent_owners.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace gdr;
using namespace gdr::ipc;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

socklen_t name_of(uint64_t owner, sockaddr_un* name)
{
    name->sun_family = AF_UNIX;
    const int length = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1,
                                "ucx-gdr-ipc-%016llx", static_cast<unsigned long long>(owner));
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

// A thread in the place of an owner.
class StandIn {
  public:
    // What becomes of a connection.
    enum class Way {
        hang_up,
        hang_up_when_asked,
        answer_in_part,
        refuse,
        answer,
        answer_late, // after 300 ms
        say_nothing, // until the asker has gone
    };

    explicit StandIn(Way way) : way_(way)
    {
        static uint64_t id = this_process().id;
        key_.owner = ++id;
        sockaddr_un name{};
        const socklen_t length = name_of(id, &name);
        listener_ = cuda::UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
        if (bind(listener_.get(), reinterpret_cast<sockaddr*>(&name), length) != 0 ||
            listen(listener_.get(), SOMAXCONN) != 0) {
            throw std::runtime_error("no socket");
        }
        thread_ = std::thread([this] { serve(); });
    }
    StandIn(const StandIn&) = delete;
    StandIn& operator=(const StandIn&) = delete;
    ~StandIn()
    {
        shutdown(listener_.get(), SHUT_RDWR); // accept() fails
        thread_.join();
    }

    // From the next connection on.
    void from_now(Way way) { way_ = way; }

    // Names some memory of the owner's.
    const RemoteKey& key() const { return key_; }

  private:
    void serve()
    {
        sigset_t alarm; // the asker's
        sigemptyset(&alarm);
        sigaddset(&alarm, SIGALRM);
        pthread_sigmask(SIG_BLOCK, &alarm, nullptr);
        while (const cuda::UniqueFd connection{
            accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)}) {
            serve(connection, way_);
        }
    }

    static void serve(const cuda::UniqueFd& connection, Way way)
    {
        char question[100];
        if (way == Way::hang_up || recv(connection.get(), question, sizeof(question), 0) <= 0 ||
            way == Way::hang_up_when_asked) {
            return;
        }
        char answer[120] = "";
        size_t length = sizeof(answer);
        cuda::UniqueFd descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
        switch (way) {
        case Way::answer_in_part:
            length = 1;
            break;
        case Way::refuse:
            answer[0] = '?';
            descriptor = {};
            break;
        case Way::answer_late:
            std::this_thread::sleep_for(300ms);
            break;
        case Way::say_nothing:
            recv(connection.get(), question, sizeof(question), 0);
            return;
        default:
            break;
        }
        send_message(connection.get(), answer, length, descriptor.get());
    }

    RemoteKey key_;
    std::atomic<Way> way_;
    cuda::UniqueFd listener_;
    std::thread thread_;
};

using Way = StandIn::Way;

// Interrupts the calling thread's system calls again and again.
class Alarms {
  public:
    Alarms()
    {
        struct sigaction action {};
        action.sa_handler = [](int) {};
        action.sa_flags = SA_RESTART;
        sigaction(SIGALRM, &action, nullptr);
        const itimerval often{{0, 1000}, {0, 1000}};
        setitimer(ITIMER_REAL, &often, nullptr);
    }
    Alarms(const Alarms&) = delete;
    Alarms& operator=(const Alarms&) = delete;
    ~Alarms()
    {
        const itimerval never{};
        setitimer(ITIMER_REAL, &never, nullptr);
    }
};

TEST(IpcDescriptors, AnAnswer)
{
    const StandIn owner(Way::answer);
    EXPECT_TRUE(ask_for_descriptor(owner.key()));
}

TEST(IpcDescriptors, SignalsDoNotEndAQuestion)
{
    const StandIn owner(Way::answer_late);
    const Alarms alarms;
    EXPECT_TRUE(ask_for_descriptor(owner.key()));
}

TEST(IpcDescriptors, SignalsDoNotMakeItLonger)
{
    const StandIn owner(Way::say_nothing);
    const Alarms alarms;
    const auto start = Clock::now();
    EXPECT_THROW(ask_for_descriptor(owner.key()), NoAnswer);
    const auto waited = Clock::now() - start;
    EXPECT_GE(waited, 2900ms);
    EXPECT_LT(waited, 30s); // each signal began the wait anew
}

// Asks until there is an answer: an owner that is asked once more has little time for it.
cuda::UniqueFd ask_until_answered(const StandIn& owner)
{
    const auto end = Clock::now() + 1min;
    while (true) {
        try {
            return ask_for_descriptor(owner.key());
        } catch (const NoAnswer&) {
            if (Clock::now() > end) {
                throw;
            }
        }
        std::this_thread::sleep_for(50ms);
    }
}

// As an owner does when the question comes late, or when it ends.
TEST(IpcDescriptors, WhoHangsUpIsAskedAgain)
{
    for (const Way way : {Way::hang_up, Way::hang_up_when_asked, Way::answer_in_part}) {
        StandIn owner(way);
        const auto start = Clock::now();
        errno = EACCES; // whatever has failed before in the thread
        EXPECT_THROW(ask_for_descriptor(owner.key()), NoAnswer);
        owner.from_now(Way::answer);
        EXPECT_TRUE(ask_until_answered(owner));
        EXPECT_GE(Clock::now() - start, 1s);
    }
}

TEST(IpcDescriptors, WhoRefusesHasAnswered)
{
    StandIn owner(Way::hang_up);
    EXPECT_THROW(ask_for_descriptor(owner.key()), NoAnswer);
    owner.from_now(Way::refuse);
    EXPECT_THROW(ask_until_answered(owner), std::runtime_error);
    owner.from_now(Way::answer_late);
    EXPECT_TRUE(ask_for_descriptor(owner.key())); // waited for as long as at first
}

TEST(IpcDescriptors, OfAnOwnerThatHasGone)
{
    RemoteKey key;
    key.owner = this_process().id ^ 1;
    EXPECT_THROW(ask_for_descriptor(key), std::system_error);
}

int exit_status(pid_t child)
{
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A child closes what it has of the socket; that number is a file's then.
TEST(IpcDescriptors, AChildsChildKeepsItsFiles)
{
    ASSERT_TRUE(gdr::abi::choose_series()); // whose thread serves
    serve_descriptors();
    const pid_t child = fork();
    if (child == 0) {
        std::vector<int> files(100);
        for (int& file : files) {
            file = open("/dev/null", O_RDONLY);
        }
        const pid_t grandchild = fork();
        if (grandchild == 0) {
            const auto is_open = [](int file) { return fcntl(file, F_GETFD) >= 0; };
            _exit(std::ranges::all_of(files, is_open) ? 0 : 1);
        }
        _exit(exit_status(grandchild));
    }
    EXPECT_EQ(exit_status(child), 0);
}

size_t open_files()
{
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return static_cast<size_t>(std::distance(begin(files), end(files)));
}

// A question with files beside it, of this many bytes; what this process answers.
void send_with_files(size_t bytes, size_t files)
{
    const cuda::UniqueFd connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un name{};
    const socklen_t length = name_of(this_process().id, &name);
    ASSERT_EQ(connect(connection.get(), reinterpret_cast<sockaddr*>(&name), length), 0);
    std::vector<int> stray(files, STDIN_FILENO);
    std::vector<char> question(bytes), control(CMSG_SPACE(files * sizeof(int)));
    iovec data{question.data(), question.size()};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(files * sizeof(int));
    memcpy(CMSG_DATA(header), stray.data(), files * sizeof(int));
    ASSERT_EQ(sendmsg(connection.get(), &message, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
    char answer[200];
    EXPECT_GE(recv(connection.get(), answer, sizeof(answer), 0), 0);
}

// Whoever asks could fill the process with files of his.
TEST(IpcDescriptors, FilesBesideAQuestionAreNotKept)
{
    ASSERT_TRUE(gdr::abi::choose_series()); // whose thread serves
    serve_descriptors();
    send_with_files(24, 1);
    const size_t before = open_files();
    for (unsigned i = 0; i < 50; ++i) {
        for (const size_t bytes : {1, 16, 24, 100}) { // of a question, or not
            send_with_files(bytes, 1 + i % 5);
        }
    }
    for (unsigned i = 0; i < 1000 && open_files() > before; ++i) { // the last connection closes
        std::this_thread::sleep_for(1ms);
    }
    EXPECT_LE(open_files(), before);
}

// Nor what an owner sends beside the one that was asked for.
TEST(IpcDescriptors, OneFileComesWithAnAnswer)
{
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    const cuda::UniqueFd sender(ends[0]), receiver(ends[1]);
    const size_t before = open_files();
    for (const int files : {1, 2, 3}) {
        const char byte = 0;
        int stray[] = {STDIN_FILENO, STDIN_FILENO, STDIN_FILENO};
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof(stray))] = {};
        iovec data{const_cast<char*>(&byte), 1};
        msghdr message{};
        message.msg_iov = &data;
        message.msg_iovlen = 1;
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(files * sizeof(int));
        cmsghdr* const header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(files * sizeof(int));
        memcpy(CMSG_DATA(header), stray, files * sizeof(int));
        ASSERT_EQ(sendmsg(sender.get(), &message, 0), 1);
        char received = 1;
        cuda::UniqueFd file;
        EXPECT_TRUE(receive_message(receiver.get(), &received, 1, &file));
        EXPECT_TRUE(file);
        file = {};
        EXPECT_EQ(open_files(), before) << files;
    }
}

TEST(IpcSilentOwners, AreAskedAgainAfterPausesThatGrow)
{
    constexpr uint64_t kSilent = 1, kOther = 2;
    SilentOwners owners;
    SilentOwners::Clock::time_point now{};
    EXPECT_EQ(owners.patience(kSilent, now), 3s);
    for (const std::chrono::seconds pause : {1s, 2s, 4s, 8s, 16s, 32s, 64s, 64s}) {
        owners.did_not_answer(kSilent, now);
        EXPECT_EQ(owners.patience(kSilent, now + pause - 1ms), 0ms);
        EXPECT_EQ(owners.patience(kOther, now), 3s);
        now += pause;
        EXPECT_EQ(owners.patience(kSilent, now), 100ms);
    }
    owners.answered(kSilent);
    EXPECT_EQ(owners.patience(kSilent, now), 3s);

    // One that is not asked for long is forgotten when there is another.
    owners.did_not_answer(kSilent, now);
    owners.did_not_answer(kOther, now + 1min);
    EXPECT_EQ(owners.patience(kSilent, now + 1min), 100ms);
    owners.did_not_answer(kOther, now + 2min);
    EXPECT_EQ(owners.patience(kSilent, now + 2min), 3s);
}

TEST(IpcSilentOwners, ThreadsThatWaitedForTheSameAnswerMakeOnePause)
{
    constexpr uint64_t kSilent = 1;
    SilentOwners owners;
    SilentOwners::Clock::time_point now{};
    for (const std::chrono::seconds pause : {1s, 2s, 4s}) {
        for (unsigned thread = 0; thread < 8; ++thread) {
            owners.did_not_answer(kSilent, now + 1ms * thread);
        }
        now += pause;
        EXPECT_EQ(owners.patience(kSilent, now - 1ms), 0ms);
        EXPECT_EQ(owners.patience(kSilent, now), 100ms);
    }
}

} // namespace
