// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory of a peer on the same host that kernels reach by their own loads and stores: that of this
// process, and by CUDA IPC that of another.
#include "initiators_fixture.hpp"

#include <csignal>
#include <memory>
#include <string>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace synctest {
namespace {

constexpr unsigned kCounters = 16; // of a channel

class OnHost : public Initiators {
  protected:
    void SetUp() override
    {
        Initiators::SetUp();
        setenv("UCX_GDR_IPC", "y", 1);
    }

    // Operations that went through the rings of a device.
    unsigned long long posted(const Initiator& side)
    {
        ugdr_dev_t handle{};
        EXPECT_UCS(ugdr_device_handle(side.device, &handle));
        const auto counters = copy_of(handle.counters, kChannels * kCounters);
        unsigned long long all = 0;
        for (unsigned channel = 0; channel < kChannels; ++channel) {
            all += counters[channel * kCounters];
        }
        return all;
    }

    void run(const char* name, const Exchange& with, unsigned threads = 32)
    {
        CUstream work = stream();
        launch(kernel("initiators", name), 1, threads, work, {&with});
        EXPECT_CUDA(cuStreamSynchronize(work));
        EXPECT_CUDA(cuStreamDestroy(work));
    }

    // So many memories that kernels know no address of that which comes last.
    void map_out_last(Initiator& side)
    {
        ASSERT_UCS(ugdr_mem_unmap(side.mapped_out));
        for (unsigned i = 0; i < UGDR_DEV_MEMORIES; ++i) {
            map(side, side.out, 1);
        }
        side.mapped_out = map(side, side.out, kWords);
    }
    static void import_signals_last(Initiator& side, const Initiator& far)
    {
        ASSERT_UCS(ugdr_rmem_release(side.far_signals));
        for (unsigned i = 0; i < UGDR_DEV_MEMORIES; ++i) {
            import_memory(side.peer, far.mapped_signals);
        }
        side.far_signals = import_memory(side.peer, far.mapped_signals);
    }
};

void send_all(int socket, const void* bytes, size_t length)
{
    ASSERT_EQ(send(socket, bytes, length, MSG_NOSIGNAL), static_cast<ssize_t>(length));
}
std::vector<char> receive_all(int socket)
{
    std::vector<char> bytes(65536);
    const ssize_t length = recv(socket, bytes.data(), bytes.size(), 0);
    bytes.resize(static_cast<size_t>(std::max<ssize_t>(length, 0)));
    return bytes;
}

class Mapped : public OnHost {
  protected:
    // Both connect by a socket that keeps messages apart.
    void meet(int socket, bool blob_is_forged = false)
    {
        prepare(a_, false, 1, false);
        const void* blob = nullptr;
        size_t length = 0;
        ASSERT_UCS(ugdr_peer_export(a_.peer, &blob, &length));
        send_all(socket, blob, length);
        const auto peer = receive_all(socket);
        ASSERT_UCS(ugdr_peer_connect(a_.peer, peer.data(), peer.size()));
        for (auto [mapped, imported] :
             {std::pair(a_.mapped_in, &a_.far_in), std::pair(a_.mapped_signals, &a_.far_signals)}) {
            ASSERT_UCS(ugdr_mem_export(mapped, &blob, &length));
            send_all(socket, blob, length);
            auto memory = receive_all(socket);
            if (blob_is_forged) {
                std::fill(memory.end() - sizeof(CUipcMemHandle), memory.end(), '\xa5');
            }
            ASSERT_UCS(ugdr_rmem_import(a_.peer, memory.data(), memory.size(), imported));
        }
        send_all(socket, "!", 1);
        receive_all(socket);
    }

    // Another process, which does what another test says.
    void start(const char* test)
    {
        int sockets[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
        const std::string filter = std::string("--gtest_filter=Mapped.DISABLED_") + test;
        const std::string number = std::to_string(sockets[1]);
        setenv("SYNC_SOCKET", number.c_str(), 1);
        child_ = fork();
        if (child_ == 0) {
            execl("/proc/self/exe", "sync_test", filter.c_str(), "--gtest_also_run_disabled_tests",
                  "--gtest_brief=1", nullptr);
            _exit(127);
        }
        ::close(sockets[1]);
        socket_ = sockets[0];
    }
    int finish()
    {
        int status = -1;
        EXPECT_EQ(waitpid(child_, &status, 0), child_);
        child_ = 0;
        return status;
    }
    static int parents_socket() { return std::atoi(std::getenv("SYNC_SOCKET")); }

    int socket_ = -1;
    pid_t child_ = 0;
};

TEST_F(Mapped, SignalsNeverBeforeData)
{
    NEEDS_KERNELS();
    connect(false);
    exchange(rounds(), 1);
    EXPECT_EQ(posted(a_) + posted(b_), 0u);
}

TEST_F(Mapped, EveryKind)
{
    NEEDS_KERNELS();
    for (const bool host : {false, true}) {
        SCOPED_TRACE(host ? "host" : "GPU");
        connect(host);
        every_kind(true);
        EXPECT_EQ(posted(a_), 0u);
        TearDown();
    }
}

// Whatever the addresses are a multiple of, and nothing beside.
TEST_F(Mapped, AnyBytes)
{
    NEEDS_KERNELS();
    connect(false);
    std::vector<unsigned char> out(8192);
    unsigned step = 0;
    for (unsigned length : {0u, 1u, 7u, 16u, 33u, 1000u, 4000u}) {
        for (const auto& [from, to] :
             {std::pair(0u, 0u), std::pair(3u, 3u), std::pair(16u, 0u), std::pair(1u, 5u),
              std::pair(4u, 8u), std::pair(2u, 7u), std::pair(8u, 0u)}) {
            SCOPED_TRACE(std::to_string(length) + " bytes from " + std::to_string(from) + " to " +
                         std::to_string(to));
            for (size_t i = 0; i < out.size(); ++i) {
                out[i] = static_cast<unsigned char>(i * 7 + ++step % 251);
            }
            ASSERT_CUDA(cuMemcpyHtoD(address_of(a_.out), out.data(), out.size()));
            ASSERT_CUDA(cuMemsetD8(address_of(b_.in), 0xee, 8192));
            Exchange with = a_.exchange(from, to);
            with.length = length;
            run("sync_put_bytes", with, 96);
            EXPECT_EQ(copy_of(a_.statuses, 1)[0], UCS_OK);
            std::vector<unsigned char> expected(8192, 0xee);
            std::copy_n(out.begin() + from, length, expected.begin() + to);
            EXPECT_EQ(copy_of(reinterpret_cast<unsigned char*>(b_.in), 8192), expected);
            std::copy_n(out.begin() + from, length, out.begin() + from + 4096);
            EXPECT_EQ(copy_of(reinterpret_cast<unsigned char*>(a_.out), 8192), out);
        }
    }
    EXPECT_EQ(posted(a_), 0u);
}

// The library says what is wrong, and nothing is written.
TEST_F(Mapped, WrongIdsAndBounds)
{
    NEEDS_KERNELS();
    for (unsigned mistake = 0; mistake < 8; ++mistake) {
        SCOPED_TRACE(mistake);
        connect(false);
        Exchange with = a_.exchange(mistake, 1);
        with.length = kWords * 8;
        run("sync_wrong", with);
        EXPECT_EQ(copy_of(a_.statuses, 1)[0], UCS_ERR_INVALID_PARAM);
        ugdr_context_attr_t attr{};
        attr.field_mask = UGDR_CONTEXT_ATTR_FIELD_STATUS;
        EXPECT_UCS(ugdr_context_query(a_.context, &attr));
        EXPECT_EQ(attr.status, UCS_ERR_INVALID_PARAM);
        EXPECT_EQ(copy_of(b_.in, kWords), std::vector<unsigned long long>(kWords));
        EXPECT_EQ(copy_of(b_.signals, 2 * kChannels),
                  std::vector<unsigned long long>(2 * kChannels));
        TearDown();
    }
}

// Where a ring carries the data, and the kernel itself the signal, or the other way round.
TEST_F(Mapped, OrderWithRings)
{
    NEEDS_KERNELS();
    for (const auto& [ours, peers] :
         {std::pair(true, false), std::pair(false, true), std::pair(true, true)}) {
        SCOPED_TRACE(std::string(ours ? "ours " : "") + (peers ? "peers'" : ""));
        connect(false);
        if (ours) {
            map_out_last(a_);
        }
        if (peers) {
            import_signals_last(a_, b_);
        }
        exchange(2000, 1, "sync_send_parts");
        EXPECT_GT(posted(a_), 0u);
        for (Initiator* side : {&a_, &b_}) { // takes all these memories back
            EXPECT_UCS(ugdr_device_close(side->device));
            EXPECT_UCS(ugdr_context_destroy(side->context, 0));
            side->forget();
        }
    }
}

TEST_F(Mapped, SwitchedOff)
{
    NEEDS_KERNELS();
    setenv("UCX_GDR_IPC", "n", 1);
    connect(false);
    exchange(10, 1);
    EXPECT_GE(posted(a_), 10u);
}

// Memory that is imported while a device is open, and after another was released.
TEST_F(Mapped, ReleasedAndImportedAgain)
{
    NEEDS_KERNELS();
    connect(false);
    const uint32_t before = ugdr_rmem_id(a_.far_in);
    ASSERT_UCS(ugdr_rmem_release(a_.far_in));
    a_.far_in = import_memory(a_.peer, b_.mapped_in);
    EXPECT_NE(ugdr_rmem_id(a_.far_in), before);
    exchange(100, 1);
    EXPECT_EQ(posted(a_), 0u);
    Exchange with = a_.exchange(0, 1);
    with.rmem = before;
    run("sync_send_rounds", with);
    EXPECT_EQ(copy_of(a_.statuses, 1)[0], UCS_ERR_INVALID_PARAM);
}

// ---- between processes

// The other process. It ends when this one is ready to.
TEST_F(Mapped, DISABLED_Receiver)
{
    meet(parents_socket());
    const Exchange with = a_.exchange(0, 5000);
    run("sync_receive_rounds", with);
    EXPECT_EQ(copy_of(a_.statuses, 1)[0], UCS_OK);
    EXPECT_EQ(posted(a_), 0u);
    send_all(parents_socket(), "!", 1);
    receive_all(parents_socket());
}

TEST_F(Mapped, SignalsNeverBeforeDataBetweenProcesses)
{
    NEEDS_KERNELS();
    start("Receiver");
    meet(socket_);
    run("sync_send_rounds", a_.exchange(0, 5000));
    EXPECT_EQ(copy_of(a_.statuses, 1)[0], UCS_OK);
    EXPECT_EQ(posted(a_), 0u);
    receive_all(socket_);
    send_all(socket_, "!", 1);
    EXPECT_EQ(finish(), 0);
}

TEST_F(Mapped, DISABLED_Idle)
{
    meet(parents_socket());
    receive_all(parents_socket());
    EXPECT_EQ(copy_of(a_.signals, 1)[0], 10u);
    receive_all(parents_socket());
}

// A handle that is none: a ring carries everything.
TEST_F(Mapped, ForgedHandle)
{
    NEEDS_KERNELS();
    start("Idle");
    meet(socket_, true);
    run("sync_send_rounds", a_.exchange(0, 10));
    EXPECT_EQ(copy_of(a_.statuses, 1)[0], UCS_OK);
    EXPECT_EQ(posted(a_), 10u);
    send_all(socket_, "!", 1);
    send_all(socket_, "!", 1);
    EXPECT_EQ(finish(), 0);
}

// What the dead process had stays there for those who have opened it.
TEST_F(Mapped, OwnerThatDies)
{
    NEEDS_KERNELS();
    start("Idle");
    meet(socket_);
    run("sync_send_rounds", a_.exchange(0, 10));
    kill(child_, SIGKILL);
    EXPECT_TRUE(WIFSIGNALED(finish()));
    run("sync_send_rounds", a_.exchange(0, 20));
    EXPECT_EQ(copy_of(a_.statuses, 1)[0], UCS_OK);
    EXPECT_EQ(posted(a_), 0u);
}

} // namespace
} // namespace synctest
