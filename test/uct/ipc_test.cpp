// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Keys of another process's memory, and what is open of it: by the classes themselves, since UCX
// has no way to look into the cache. The owner is a process of its own, forked before CUDA is used.
// On softcuda, or on a GPU.
#include "../tap.hpp"
#include "abi/host.hpp"
#include "cuda/allocation_handle.hpp"
#include "cuda/driver.hpp"
#include "emu/softcuda/softcuda.h"
#include "ipc/address.hpp"
#include "ipc/descriptor_server.hpp"
#include "ipc/exports.hpp"
#include "ipc/memory_domain.hpp"
#include "ipc/process.hpp"
#include "ipc/registration.hpp"
#include "ipc/remote_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace gdr;
using namespace gdr::ipc;

namespace {

// What the program does while it is counted.
bool counting = false;
uint64_t allocations = 0;

} // namespace

// Not under a sanitizer, which has the allocator to itself.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

[[gnu::noinline]] void* operator new(size_t size)
{
    allocations += counting;
    if (void* memory = malloc(size)) {
        return memory;
    }
    throw std::bad_alloc();
}

[[gnu::noinline]] void operator delete(void* memory) noexcept
{
    allocations += counting;
    free(memory);
}

[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept
{
    allocations += counting;
    free(memory);
}

#endif

namespace {

// A function of softcuda's own (softcuda.h), or nullptr: the driver is a real one.
#define SOFTCUDA(function) reinterpret_cast<decltype(&(function))>(dlsym(RTLD_DEFAULT, #function))

// Calls of a function of the driver; 0 on a real one.
uint64_t calls_of(const char* function)
{
    const auto count = SOFTCUDA(softcuda_call_count);
    return count != nullptr ? count(function) : 0;
}

bool memory_is_short = false;
unsigned openings = 0;

// CUDA, which on demand has no memory to open what is another process's.
const cuda::Driver& driver()
{
    static const cuda::Driver table = [] {
        cuda::Driver functions = *cuda::driver();
        functions.cuIpcOpenMemHandle = [](CUdeviceptr* address, CUipcMemHandle handle,
                                          unsigned flags) {
            ++openings;
            return memory_is_short ? CUDA_ERROR_OUT_OF_MEMORY
                                   : cuda::driver()->cuIpcOpenMemHandle(address, handle, flags);
        };
        return functions;
    }();
    return table;
}

constexpr auto kFabric = static_cast<CUmemAllocationHandleType>(8); // named by CUDA 12.3
constexpr size_t kPage = 2 << 20;                                   // of cuMemCreate

// A page of cuMemCreate that has handles of this type alone.
CUdeviceptr map_with(CUmemAllocationHandleType type)
{
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    properties.requestedHandleTypes = type;
    CUmemGenericAllocationHandle handle = 0;
    cuda::check(cuMemCreate(&handle, kPage, &properties, 0), "cuMemCreate");
    CUdeviceptr address = 0;
    cuda::check(cuMemAddressReserve(&address, kPage, 0, 0, 0), "cuMemAddressReserve");
    cuda::check(cuMemMap(address, kPage, 0, handle, 0), "cuMemMap");
    CUmemAccessDesc access{};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    cuda::check(cuMemSetAccess(address, kPage, &access, 1), "cuMemSetAccess");
    cuda::check(cuMemRelease(handle), "cuMemRelease");
    return address;
}

// So many more than are open, from the lowest number that is free; SIZE_MAX: as at first.
void set_descriptors_left(size_t more)
{
    static const rlimit before = [] {
        rlimit limit{};
        getrlimit(RLIMIT_NOFILE, &limit);
        return limit;
    }();
    rlimit limit = before;
    if (more != SIZE_MAX) {
        const int next = dup(STDIN_FILENO);
        close(next);
        limit.rlim_cur = static_cast<rlim_t>(next) + more;
    }
    setrlimit(RLIMIT_NOFILE, &limit);
}

// The next process that is forked has a pid that was another's. Needs root.
void make_next_pid(pid_t pid)
{
    std::ofstream("/proc/sys/kernel/ns_last_pid") << pid - 1;
}

// In a process of its own: allocates, tells the key, frees.
class Owner {
  public:
    enum class Namespace { ours, own }; // of pids
    enum class Life {
        one,
        many, // ends by leave(); another process with the same pid takes its place
    };

    explicit Owner(Namespace pids = Namespace::ours, Life life = Life::one)
    {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
            throw std::runtime_error("socketpair");
        }
        pid_ = fork();
        socket_ = pair[pid_ == 0];
        close(pair[pid_ != 0]);
        if (pid_ == 0) {
            if (life == Life::many) {
                serve_again_and_again();
            } else if (pids == Namespace::ours || moved_to_own_namespace()) {
                serve();
            }
            _exit(0);
        }
    }
    ~Owner() { kill(); }

    void kill()
    {
        if (pid_ <= 0) {
            return;
        }
        ::kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        close(socket_);
        pid_ = 0;
    }

    RemoteKey allocate(size_t size, uint8_t fill)
    {
        ask({Request::allocate, size, fill});
        RemoteKey key;
        take(&key, sizeof(key));
        return key;
    }
    RemoteKey map_with_fabric_handle(uint8_t fill)
    {
        ask({Request::map_with_fabric_handle, kPage, fill});
        RemoteKey key;
        take(&key, sizeof(key));
        return key;
    }
    RemoteKey map_with_descriptor(uint8_t fill)
    {
        ask({Request::map_with_descriptor, kPage, fill});
        RemoteKey key;
        take(&key, sizeof(key));
        return key;
    }
    void free(const RemoteKey& key)
    {
        ask({key.sharing == Sharing::handle ? Request::free : Request::unmap, key.base, 0});
    }
    void reset_device() { ask({Request::reset_device, 0, 0}); }
    // So many descriptors more than it has; SIZE_MAX: as many as before.
    void limit_descriptors(size_t more) { ask({Request::limit_descriptors, more, 0}); }
    // Between the two it does not run.
    void stop()
    {
        ::kill(pid_, SIGSTOP);
        waitpid(pid_, nullptr, WUNTRACED);
    }
    void go_on() { ::kill(pid_, SIGCONT); }
    // A process like itself, which does nothing until its end; its pid.
    pid_t fork_child()
    {
        ask({Request::fork_child, 0, 0});
        pid_t pid;
        take(&pid, sizeof(pid));
        return pid;
    }
    // Whether the next process has the pid.
    bool leave()
    {
        ask({Request::leave, 0, 0});
        char same;
        take(&same, 1);
        return same != 0;
    }

  private:
    enum class Request : uint64_t {
        allocate,
        map_with_fabric_handle,
        map_with_descriptor,
        free,
        unmap,
        reset_device,
        limit_descriptors,
        fork_child,
        leave,
    };
    struct Question {
        Request request;
        uint64_t argument;
        uint64_t fill;
    };

    void ask(const Question& question)
    {
        if (write(socket_, &question, sizeof(question)) != sizeof(question)) {
            throw std::runtime_error("the owner has gone");
        }
        if (question.request == Request::free || question.request == Request::unmap ||
            question.request == Request::reset_device ||
            question.request == Request::limit_descriptors) {
            char done;
            take(&done, 1);
        }
    }
    void take(void* to, size_t length)
    {
        if (recv(socket_, to, length, MSG_WAITALL) != static_cast<ssize_t>(length)) {
            throw std::runtime_error("the owner has gone");
        }
    }

    // As a container: with a /proc of its own, too, without which CUDA does not work there. A
    // process is moved to a pid namespace by being forked into it: true in that child alone.
    static bool moved_to_own_namespace()
    {
        if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0 || fork() != 0) {
            return false;
        }
        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
        mount("proc", "/proc", "proc", 0, nullptr);
        return true;
    }

    // CUDA is for each child alone.
    void serve_again_and_again()
    {
        pid_t pid = fork();
        while (pid != 0) {
            int status = 0;
            waitpid(pid, &status, 0);
            if (WEXITSTATUS(status) != kLeft) {
                return;
            }
            pid_t next = 0;
            for (unsigned tries = 0; next != pid && tries < 200; ++tries) {
                if (next != 0) { // another process was faster
                    end(next);
                }
                make_next_pid(pid);
                next = fork();
                if (next == 0) {
                    break;
                }
            }
            if (next == 0) {
                pid = 0;
                break;
            }
            const char same = next == pid;
            (void)!write(socket_, &same, 1);
            pid = next;
        }
        serve();
    }
    static void end(pid_t pid)
    {
        ::kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
    }

    void serve()
    {
        std::optional<cuda::PrimaryContext> primary;
        std::optional<cuda::CurrentContext> current;
        std::optional<Exports> exports;
        const auto use_device = [&] {
            primary.emplace(driver(), 0);
            current.emplace(driver(), primary->handle());
        };
        for (Question question; recv(socket_, &question, sizeof(question), MSG_WAITALL) > 0;) {
            if (cuda::driver() == nullptr) {
                fprintf(stderr, "the owner: %s\n", cuda::unavailable_reason().c_str());
                _exit(1);
            }
            if (!exports) { // who is not asked has no context, which takes a GPU's memory and time
                use_device();
                exports.emplace(driver());
            }
            CUdeviceptr address = question.argument;
            switch (question.request) {
            case Request::leave:
                _exit(kLeft);
            case Request::free:
                cuda::check(driver().cuMemFree(address), "cuMemFree");
                (void)!write(socket_, "", 1);
                continue;
            case Request::unmap:
                cuda::unmap(driver(), address, kPage);
                (void)!write(socket_, "", 1);
                continue;
            case Request::reset_device:
                current.reset();
                cuda::check(cuDevicePrimaryCtxReset(0), "cuDevicePrimaryCtxReset");
                use_device();
                (void)!write(socket_, "", 1);
                continue;
            case Request::limit_descriptors:
                set_descriptors_left(question.argument);
                (void)!write(socket_, "", 1);
                continue;
            case Request::fork_child: {
                pid_t child = fork();
                if (child == 0) {
                    close(socket_);
                    for (;;) {
                        pause();
                    }
                }
                (void)!write(socket_, &child, sizeof(child));
                continue;
            }
            case Request::map_with_fabric_handle:
                address = map_with(kFabric);
                break;
            case Request::map_with_descriptor:
                gdr::abi::choose_series(); // whose thread gives it away
                address = map_with(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
                break;
            case Request::allocate:
                cuda::check(driver().cuMemAlloc(&address, question.argument), "cuMemAlloc");
            }
            cuda::check(driver().cuMemsetD8(address, static_cast<unsigned char>(question.fill),
                                            question.argument),
                        "cuMemsetD8");
            cuda::check(cuCtxSynchronize(), "cuCtxSynchronize"); // it may return before
            const RemoteKey key =
                exports->key_of(reinterpret_cast<void*>(address), question.argument);
            (void)!write(socket_, &key, sizeof(key));
        }
    }

    static constexpr int kLeft = 17; // an exit status

    pid_t pid_;
    int socket_;
};
// Made before CUDA is used.
Owner* owner;
Owner* mortal;  // killed in a test
Owner* reborn;  // may leave
Owner* forking; // forks, and is killed
Owner* asked_once[2];
Owner* untouched; // of one test alone: other memory has left no room before its own
Owner* foreign;   // in a pid namespace of its own; nullptr without the right to make one

class Ipc : public testing::Test {
  protected:
    void SetUp() override
    {
        ASSERT_TRUE(gdr::abi::choose_series()) << gdr::abi::why_not();
        ASSERT_NE(cuda::driver(), nullptr) << cuda::unavailable_reason();
        primary_ = std::make_unique<cuda::PrimaryContext>(driver(), 0);
        current_ = std::make_unique<cuda::CurrentContext>(driver(), primary_->handle());
        memory_.enter(SIZE_MAX);
    }
    void TearDown() override
    {
        memory_.leave();
        EXPECT_EQ(memory_.counts().regions, 0u);
        current_.reset();
        primary_.reset();
    }

    uint8_t first_byte(Region& region)
    {
        uint8_t byte = 0;
        const CUdeviceptr from =
            region.reach(0, cuda::context_id(driver(), primary_->handle()), region.key().base);
        cuda::check(driver().cuMemcpy(reinterpret_cast<CUdeviceptr>(&byte), from, 1), "cuMemcpy");
        return byte;
    }

    RemoteMemory& memory_ = RemoteMemory::instance();
    std::unique_ptr<cuda::PrimaryContext> primary_;
    std::unique_ptr<cuda::CurrentContext> current_;
};

// Acquires memory, which may take some calls after it did not open, or while other memory is
// closed.
Region* acquire_in_the_end(const RemoteKey& key)
{
    Region* region = nullptr;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (region == nullptr && std::chrono::steady_clock::now() < limit) {
        region = RemoteMemory::instance().acquire(driver(), key);
        std::this_thread::yield();
    }
    return region;
}

TEST_F(Ipc, OneOpeningForOneAllocation)
{
    const RemoteKey key = owner->allocate(1 << 20, 7);
    ASSERT_EQ(key.sharing, Sharing::handle);
    Region* region = memory_.acquire(driver(), key);
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(memory_.acquire(driver(), key), region);
    EXPECT_EQ(first_byte(*region), 7);
    EXPECT_TRUE(region->holds(key.base + 100, (1 << 20) - 100));
    EXPECT_FALSE(region->holds(key.base + 100, (1 << 20) - 99));
    EXPECT_FALSE(region->holds(key.base - 1, 1));
    EXPECT_FALSE(region->holds(key.base, SIZE_MAX));
    memory_.release(region);
    memory_.release(region);
    EXPECT_EQ(memory_.counts().regions, 1u); // for the next time
    EXPECT_EQ(memory_.acquire(driver(), key), region);
    memory_.release(region);
    owner->free(key);
}

TEST_F(Ipc, MemoryFreedAndAllocatedAgainIsOpenedAnew)
{
    const RemoteKey old = owner->allocate(1 << 20, 1);
    Region* stale = memory_.acquire(driver(), old);
    ASSERT_NE(stale, nullptr);
    memory_.release(stale);
    owner->free(old);
    const RemoteKey now = owner->allocate(1 << 20, 2);
    ASSERT_EQ(now.base, old.base); // else this shows nothing
    Region* region = acquire_in_the_end(now);
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(first_byte(*region), 2);
    EXPECT_EQ(memory_.counts().regions, 1u); // the other is gone
    memory_.release(region);
    owner->free(now);
}

TEST_F(Ipc, StaleMemoryInUseStaysUntilItIsReleased)
{
    const RemoteKey old = owner->allocate(4 << 20, 1);
    Region* stale = memory_.acquire(driver(), old);
    ASSERT_NE(stale, nullptr);
    owner->free(old);
    const RemoteKey now = owner->allocate(2 << 20, 2); // inside of it
    if (now.base != old.base) {
        memory_.release(stale);
        owner->free(now);
        GTEST_SKIP() << "the driver has given out another address";
    }
    Region* region = memory_.acquire(driver(), now);
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(first_byte(*region), 2);
    EXPECT_EQ(memory_.counts().regions, 2u);
    memory_.release(stale);
    EXPECT_EQ(memory_.counts().regions, 1u);
    memory_.release(region);
    owner->free(now);
}

// Parts of one block, as allocations below 2 MiB are: the driver opens no other at the same place,
// or, a real one, at times the block that is open already.
TEST_F(Ipc, StaleMemoryInUseIsInTheWayOfAPartOfItsBlock)
{
    const RemoteKey old = untouched->allocate(1 << 20, 1);
    Region* stale = memory_.acquire(driver(), old);
    ASSERT_NE(stale, nullptr);
    untouched->free(old);
    const RemoteKey now = untouched->allocate(1 << 19, 2);
    ASSERT_EQ(now.base, old.base); // else this shows nothing
    Region* region = memory_.acquire(driver(), now);
    if (SOFTCUDA(softcuda_calls) != nullptr) {
        EXPECT_EQ(region, nullptr);
    }
    memory_.release(stale); // which closes it
    if (region == nullptr) {
        region = acquire_in_the_end(now);
    }
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(first_byte(*region), 2);
    memory_.release(region);
    untouched->free(now);
}

TEST_F(Ipc, FreedMemoryDoesNotOpen)
{
    const RemoteKey key = owner->allocate(1 << 20, 1);
    owner->free(key);
    EXPECT_EQ(memory_.acquire(driver(), key), nullptr);
    EXPECT_EQ(memory_.acquire(driver(), key), nullptr);
}

TEST_F(Ipc, DeadOwner)
{
    // Parts of a block that is open for another part, as those below 2 MiB may be, do open.
    constexpr size_t kSize = 4 << 20;
    const RemoteKey opened = mortal->allocate(kSize, 5);
    const RemoteKey never = mortal->allocate(kSize, 6);
    memory_.connect(opened.owner);
    Region* region = memory_.acquire(driver(), opened);
    ASSERT_NE(region, nullptr);
    mortal->kill();
    EXPECT_EQ(first_byte(*region), 5); // what is open stays
    EXPECT_EQ(memory_.acquire(driver(), never), nullptr);
    memory_.release(region);
    memory_.disconnect(opened.owner);
    EXPECT_EQ(memory_.counts().regions, 0u);
}

TEST_F(Ipc, AnotherProcessWithTheSamePid)
{
    const RemoteKey old = reborn->allocate(4 << 20, 1);
    Region* stale = memory_.acquire(driver(), old);
    ASSERT_NE(stale, nullptr);
    EXPECT_EQ(first_byte(*stale), 1);
    memory_.release(stale);
    if (!reborn->leave()) {
        GTEST_SKIP() << "no right to choose the pid of a process, or others took it";
    }
    const RemoteKey now = reborn->allocate(4 << 20, 2);
    ASSERT_EQ(now.pid, old.pid);
    ASSERT_EQ(now.base, old.base);
    ASSERT_EQ(now.buffer_id, old.buffer_id); // else this shows less
    EXPECT_NE(now.owner, old.owner);
    Region* region = memory_.acquire(driver(), now);
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(first_byte(*region), 2);
    memory_.release(region);
}

TEST_F(Ipc, TheOwnerResetsItsDevice)
{
    const RemoteKey old = owner->allocate(1 << 20, 1);
    Region* stale = memory_.acquire(driver(), old);
    ASSERT_NE(stale, nullptr);
    EXPECT_EQ(first_byte(*stale), 1);
    memory_.release(stale);
    owner->reset_device();
    const RemoteKey now = owner->allocate(1 << 20, 2);
    ASSERT_EQ(now.base, old.base); // else this shows nothing
    Region* region = acquire_in_the_end(now);
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(first_byte(*region), 2);
    memory_.release(region);
    owner->free(now);
}

// Why there are no fabric handles; empty where there are.
std::string no_fabric_handles()
{
    try {
        cuda::unmap(driver(), map_with(kFabric), kPage);
        return {};
    } catch (const cuda::Error& error) {
        return error.what();
    }
}

// Whether there is an IMEX channel that this process, and no other, may use.
class ImexChannel {
  public:
    explicit ImexChannel(bool is_there) { setenv("SOFTCUDA_IPC", is_there ? "fabric" : "all", 1); }
    ImexChannel(const ImexChannel&) = delete;
    ImexChannel& operator=(const ImexChannel&) = delete;
    ~ImexChannel() { setenv("SOFTCUDA_IPC", "fabric", 1); }
};

// Nobody reaches beyond what was opened, whatever its key says.
TEST_F(Ipc, AKeyOfMoreThanTheMemory)
{
    std::vector<RemoteKey> keys = {owner->allocate(1 << 20, 7), owner->map_with_descriptor(7)};
    if (no_fabric_handles().empty()) {
        keys.push_back(owner->map_with_fabric_handle(7));
    }
    for (const RemoteKey& key : keys) {
        ASSERT_NE(key.sharing, Sharing::none);
        RemoteKey longer = key;
        longer.length += size_t{64} << 20;
        EXPECT_EQ(memory_.acquire(driver(), longer), nullptr) << static_cast<int>(key.sharing);
        Region* const region = acquire_in_the_end(key);
        ASSERT_NE(region, nullptr);
        EXPECT_EQ(first_byte(*region), 7);
        memory_.release(region);
        owner->free(key);
    }
}

// Whoever finds the owner's socket, and guesses what is where.
TEST_F(Ipc, AKeyThatTheOwnerHasNotMade)
{
    const RemoteKey keys[] = {owner->map_with_descriptor(6), owner->map_with_descriptor(7)};
    RemoteKey guessed = keys[0];
    guessed.proof ^= 1;
    EXPECT_THROW(ask_for_descriptor(guessed), std::runtime_error);
    guessed.proof = keys[1].proof;
    EXPECT_THROW(ask_for_descriptor(guessed), std::runtime_error) << "proof of other memory";
    EXPECT_EQ(memory_.acquire(driver(), guessed), nullptr);
    for (const RemoteKey& key : keys) {
        EXPECT_TRUE(ask_for_descriptor(key));
        owner->free(key);
    }
}

TEST_F(Ipc, AKeyOfAnotherVersion)
{
    const RemoteKey key = owner->allocate(1 << 20, 7);
    uct_rkey_t rkey = 0;
    void* handle = nullptr;
    for (const int version : {0, 1, 3, 255}) {
        RemoteKey other = key;
        other.version = static_cast<uint8_t>(version);
        EXPECT_EQ(unpack_rkey(&other, &rkey, &handle), UCS_ERR_INVALID_PARAM) << version;
    }
    ASSERT_EQ(unpack_rkey(&key, &rkey, &handle), UCS_OK);
    release_rkey(rkey, handle);
    owner->free(key);
}

TEST_F(Ipc, FabricHandles)
{
    if (const std::string why_not = no_fabric_handles(); !why_not.empty()) {
        GTEST_SKIP() << "no IMEX channel: " << why_not;
    }
    const RemoteKey key = owner->map_with_fabric_handle(4);
    ASSERT_EQ(key.sharing, Sharing::fabric);
    Region* region = memory_.acquire(driver(), key);
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(first_byte(*region), 4);
    memory_.release(region);
    owner->free(key);
    const RemoteKey freed = owner->map_with_fabric_handle(5);
    ASSERT_EQ(freed.base, key.base); // else the next shows nothing
    owner->free(freed);
    EXPECT_EQ(memory_.acquire(driver(), freed), nullptr);
}

TEST_F(Ipc, FabricHandlesWithoutAnImexChannel)
{
    if (SOFTCUDA(softcuda_calls) == nullptr) {
        GTEST_SKIP() << "a real GPU: channels do not come and go";
    }
    const RemoteKey key = owner->map_with_fabric_handle(4);
    const CUdeviceptr own = map_with(kFabric);
    const auto* const address = reinterpret_cast<void*>(own);
    {
        const ImexChannel channel(false);
        EXPECT_EQ(memory_.acquire(driver(), key), nullptr);
        EXPECT_EQ(Exports(driver()).key_of(address, 100).sharing, Sharing::none);
    }
    cuda::unmap(driver(), own, kPage);
    owner->free(key);
}

TEST_F(Ipc, WhatIsReleasedAfterTheLastEndpointOfAnOwnerIsClosed)
{
    const RemoteKey key = owner->allocate(1 << 20, 1);
    memory_.connect(key.owner);
    Region* region = memory_.acquire(driver(), key);
    ASSERT_NE(region, nullptr);
    memory_.disconnect(key.owner);
    EXPECT_EQ(memory_.counts().regions, 1u);
    EXPECT_EQ(first_byte(*region), 1);
    memory_.release(region);
    EXPECT_EQ(memory_.counts().regions, 0u);

    // Not where there is one again.
    memory_.connect(key.owner);
    region = memory_.acquire(driver(), key);
    ASSERT_NE(region, nullptr);
    memory_.disconnect(key.owner);
    memory_.connect(key.owner);
    memory_.release(region);
    EXPECT_EQ(memory_.counts().regions, 1u);
    memory_.disconnect(key.owner);
    EXPECT_EQ(memory_.counts().regions, 0u);
    owner->free(key);
}

TEST_F(Ipc, TheLastEndpointOfAnOwnerClosesWhatIsIdle)
{
    const RemoteKey one = owner->allocate(1 << 20, 1), other = owner->allocate(1 << 20, 2);
    memory_.connect(one.owner);
    memory_.connect(one.owner);
    memory_.release(memory_.acquire(driver(), one));
    Region* used = memory_.acquire(driver(), other);
    memory_.disconnect(one.owner);
    EXPECT_EQ(memory_.counts().regions, 2u);
    memory_.disconnect(one.owner);
    EXPECT_EQ(memory_.counts().regions, 1u);
    EXPECT_EQ(first_byte(*used), 2);
    memory_.release(used);
    owner->free(one);
    owner->free(other);
}

TEST_F(Ipc, IdleMemoryIsClosedBeyondTheLimit)
{
    constexpr size_t kSize = 4 << 20;
    memory_.enter(3 * kSize);
    std::vector<RemoteKey> keys;
    for (uint8_t i = 0; i < 5; ++i) {
        keys.push_back(owner->allocate(kSize, i));
        memory_.release(memory_.acquire(driver(), keys.back()));
    }
    EXPECT_EQ(memory_.counts().regions, 3u);
    EXPECT_EQ(memory_.counts().idle_bytes, 3 * kSize);
    for (uint8_t i = 0; i < 5; ++i) {
        Region* region = memory_.acquire(driver(), keys[i]);
        ASSERT_NE(region, nullptr);
        EXPECT_EQ(first_byte(*region), i);
        memory_.release(region);
    }
    for (const RemoteKey& key : keys) {
        owner->free(key);
    }
    memory_.leave();
}

// By bytes, not by how many regions there are; those that were given back longest ago, but none
// that is used, however long that has been.
TEST_F(Ipc, BeyondTheLimitTheOldestIdleMemoryIsClosed)
{
    constexpr size_t kSmall = 2 << 20, kLarge = 8 * kSmall, kLimit = 16 * kSmall;
    memory_.enter(kLimit);
    const RemoteKey oldest = owner->allocate(kLarge, 1), large = owner->allocate(kLarge, 2);
    Region* used = memory_.acquire(driver(), oldest);
    ASSERT_NE(used, nullptr);
    memory_.release(memory_.acquire(driver(), large));
    std::vector<RemoteKey> small;
    const auto add_small = [&] {
        small.push_back(owner->allocate(kSmall, 3));
        memory_.release(memory_.acquire(driver(), small.back()));
    };
    const auto opens_anew = [&](const RemoteKey& key) {
        openings = 0;
        memory_.release(memory_.acquire(driver(), key));
        return openings == 1;
    };
    while (small.size() < 8) { // as much as may be
        add_small();
    }
    EXPECT_EQ(memory_.counts().regions, 10u);
    EXPECT_EQ(memory_.counts().idle_bytes, kLimit);
    add_small(); // for which the large one goes
    EXPECT_EQ(memory_.counts().regions, 10u);
    EXPECT_EQ(memory_.counts().idle_bytes, 9 * kSmall);
    EXPECT_EQ(first_byte(*used), 1);
    memory_.release(used); // for which three small ones go
    EXPECT_EQ(memory_.counts().regions, 7u);
    EXPECT_EQ(memory_.counts().idle_bytes, kLarge + 6 * kSmall);
    EXPECT_FALSE(opens_anew(oldest));
    for (size_t i = 3; i < small.size(); ++i) {
        EXPECT_FALSE(opens_anew(small[i])) << i;
    }
    for (size_t i = 0; i < 2; ++i) {
        EXPECT_TRUE(opens_anew(small[i])) << i;
    }
    EXPECT_TRUE(opens_anew(large));
    owner->free(oldest);
    owner->free(large);
    for (const RemoteKey& key : small) {
        owner->free(key);
    }
    memory_.leave();
}

TEST_F(Ipc, BeyondTheLimitSomeMemoryIsClosedAtOnce)
{
    constexpr size_t kSize = 2 << 20;
    constexpr unsigned kLimit = 16, kRegions = 100;
    memory_.enter(kLimit * kSize);
    std::vector<RemoteKey> keys;
    unsigned closings = 0;
    size_t before = 0;
    for (unsigned i = 0; i < kRegions; ++i) {
        keys.push_back(owner->allocate(kSize, 1));
        memory_.release(memory_.acquire(driver(), keys.back()));
        const size_t now = memory_.counts().regions;
        closings += now <= before;
        before = now;
    }
    EXPECT_LE(closings, kRegions / 3);
    EXPECT_GE(before, kLimit * 7 / 8);
    for (const RemoteKey& key : keys) {
        owner->free(key);
    }
    memory_.leave();
}

TEST_F(Ipc, WhatDoesNotOpenClosesNothing)
{
    constexpr size_t kSize = 4 << 20;
    memory_.enter(2 * kSize);
    const RemoteKey open = owner->allocate(kSize, 1);
    std::vector<RemoteKey> freed(5);
    for (RemoteKey& key : freed) {
        key = owner->allocate(kSize, 2);
    }
    for (const RemoteKey& key : freed) {
        owner->free(key);
    }
    memory_.release(memory_.acquire(driver(), open));
    for (const RemoteKey& key : freed) {
        EXPECT_EQ(memory_.acquire(driver(), key), nullptr);
    }
    EXPECT_EQ(memory_.counts().regions, 1 + freed.size());
    EXPECT_EQ(memory_.counts().idle_bytes, kSize);
    openings = 0;
    memory_.release(memory_.acquire(driver(), open));
    EXPECT_EQ(openings, 0u);
    owner->free(open);
    memory_.leave();
}

TEST_F(Ipc, TenThousandRegions)
{
    constexpr unsigned kRegions = 10'000;
    std::vector<RemoteKey> keys;
    for (unsigned i = 0; i < kRegions; ++i) {
        keys.push_back(owner->allocate(4096, static_cast<uint8_t>(i)));
        Region* region = memory_.acquire(driver(), keys.back());
        ASSERT_NE(region, nullptr) << i;
        memory_.release(region);
    }
    EXPECT_EQ(memory_.counts().regions, kRegions);
    for (unsigned i = 0; i < kRegions; i += 97) {
        Region* region = memory_.acquire(driver(), keys[i]);
        ASSERT_NE(region, nullptr) << i;
        EXPECT_EQ(first_byte(*region), static_cast<uint8_t>(i));
        memory_.release(region);
    }
    for (const RemoteKey& key : keys) {
        owner->free(key);
    }
}

TEST_F(Ipc, WhatDidNotOpenForWantOfMemoryIsTriedAgain)
{
    const RemoteKey key = owner->allocate(1 << 20, 9);
    memory_is_short = true;
    openings = 0;
    constexpr unsigned kMessages = 1000;
    for (unsigned i = 0; i < kMessages; ++i) {
        EXPECT_EQ(memory_.acquire(driver(), key), nullptr);
    }
    EXPECT_GE(openings, 2u);
    EXPECT_LE(openings, 10u); // not for each message
    memory_is_short = false;
    Region* region = nullptr;
    for (unsigned i = 0; region == nullptr && i <= kMessages; ++i) {
        region = memory_.acquire(driver(), key);
    }
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(first_byte(*region), 9);
    memory_.release(region);
    owner->free(key);
}

TEST_F(Ipc, WhatDidNotOpenForWantOfDescriptorsIsTriedAgain)
{
    const RemoteKey key = owner->map_with_descriptor(6);
    ASSERT_EQ(key.sharing, Sharing::descriptor);
    for (const size_t more : {0, 1}) { // no socket; a socket, but no descriptor beside it
        set_descriptors_left(more);
        for (unsigned i = 0; i < 4; ++i) {
            EXPECT_EQ(memory_.acquire(driver(), key), nullptr) << more;
        }
        set_descriptors_left(SIZE_MAX);
    }
    Region* const region = acquire_in_the_end(key);
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(first_byte(*region), 6);
    memory_.release(region);
    owner->free(key);
}

// Of owners that nobody has asked before: their asynchronous threads have no descriptors open.
TEST_F(Ipc, WhatItsOwnerHadNoDescriptorsForIsTriedAgain)
{
    for (const size_t more : {0, 1}) { // no connection; a connection, but no descriptor to be sent
        Owner& lacking = *asked_once[more];
        const RemoteKey key = lacking.map_with_descriptor(6);
        lacking.limit_descriptors(more);
        for (unsigned i = 0; i < 4; ++i) {
            EXPECT_EQ(memory_.acquire(driver(), key), nullptr) << more;
        }
        lacking.limit_descriptors(SIZE_MAX);
        Region* const region = acquire_in_the_end(key);
        ASSERT_NE(region, nullptr) << more;
        EXPECT_EQ(first_byte(*region), 6);
        memory_.release(region);
        lacking.free(key);
    }
}

TEST_F(Ipc, MemoryToldWithoutDescriptorsIsSharedLater)
{
    gdr::abi::choose_series(); // whose thread gives it away
    Exports exports(driver());
    const CUdeviceptr own = map_with(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    const auto sharing = [&] { return exports.key_of(reinterpret_cast<void*>(own), 100).sharing; };
    const uint64_t tries = calls_of("cuMemRetainAllocationHandle");
    set_descriptors_left(0);
    constexpr unsigned kMessages = 1000;
    for (unsigned i = 0; i < kMessages; ++i) {
        EXPECT_EQ(sharing(), Sharing::none);
    }
    EXPECT_LE(calls_of("cuMemRetainAllocationHandle") - tries, 10u); // not for each message
    set_descriptors_left(SIZE_MAX);
    Sharing now = Sharing::none;
    for (unsigned i = 0; now == Sharing::none && i <= kMessages; ++i) {
        now = sharing();
    }
    EXPECT_EQ(now, Sharing::descriptor);
    cuda::unmap(driver(), own, kPage);
}

TEST_F(Ipc, AnOwnerThatWasStoppedIsAskedAgain)
{
    using Clock = std::chrono::steady_clock;
    const RemoteKey keys[] = {owner->map_with_descriptor(6), owner->map_with_descriptor(7)};
    owner->stop();
    EXPECT_EQ(memory_.acquire(driver(), keys[0]), nullptr);
    const uint64_t tries = calls_of("cuDevicePrimaryCtxRetain");
    const auto start = Clock::now();
    for (unsigned i = 0; i < 1000; ++i) { // messages, which do not wait for it
        ASSERT_EQ(memory_.acquire(driver(), keys[i % 2]), nullptr);
        ASSERT_LT(Clock::now() - start, std::chrono::milliseconds(500)) << i;
    }
    EXPECT_EQ(calls_of("cuDevicePrimaryCtxRetain") - tries, 0u);
    owner->go_on();
    const auto limit = Clock::now() + std::chrono::seconds(10);
    for (unsigned i = 0; i < 2; ++i) {
        Region* region = nullptr;
        while ((region = memory_.acquire(driver(), keys[i])) == nullptr && Clock::now() < limit) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        ASSERT_NE(region, nullptr) << i;
        EXPECT_EQ(first_byte(*region), 6 + i);
        memory_.release(region);
        owner->free(keys[i]);
    }
}

TEST_F(Ipc, WhoseOwnerDiedIsNotAskedForInItsForkedChild)
{
    const RemoteKey key = forking->map_with_descriptor(6);
    const pid_t child = forking->fork_child();
    forking->kill();
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(memory_.acquire(driver(), key), nullptr);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
    kill(child, SIGKILL);
}

TEST_F(Ipc, MemoryIsOpenedAnewAfterADeviceReset)
{
    const RemoteKey key = owner->allocate(1 << 20, 3);
    Region* region = memory_.acquire(driver(), key);
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(first_byte(*region), 3);
    openings = 0;
    current_.reset();
    ASSERT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
    primary_ = std::make_unique<cuda::PrimaryContext>(driver(), 0);
    current_ = std::make_unique<cuda::CurrentContext>(driver(), primary_->handle());
    EXPECT_EQ(first_byte(*region), 3);
    EXPECT_EQ(openings, 1u);
    memory_.release(region);
    owner->free(key);
}

// What UCP does for each rendezvous message.
TEST_F(Ipc, TheSameMemoryAgainCostsNothing)
{
    const auto all_calls = SOFTCUDA(softcuda_calls);
    const RemoteKey key = owner->allocate(1 << 20, 1);
    CUdeviceptr own = 0;
    ASSERT_EQ(cuMemAlloc(&own, 1 << 20), CUDA_SUCCESS);
    auto* const address = reinterpret_cast<char*>(own);
    Exports exports(driver());
    const auto message = [&](unsigned i) {
        Registration* registration = make_registration(address + i % 1000, 1000);
        const RemoteKey told = exports.key_of(registration->address, registration->length);
        give_up(registration);
        Region* region = memory_.acquire(driver(), key);
        memory_.release(region);
        return region != nullptr && told.base == own && this_process().id == told.owner;
    };
    ASSERT_TRUE(message(0));
    const bool counted = all_calls != nullptr; // by softcuda
    const uint64_t calls = counted ? all_calls() : 0, queries = calls_of("cuPointerGetAttributes");
    allocations = 0;
    counting = true;
    bool right = true;
    constexpr unsigned kMessages = 1000;
    for (unsigned i = 0; i < kMessages; ++i) {
        right = message(i) && right;
    }
    counting = false;
    EXPECT_TRUE(right);
    if (counted) {
        EXPECT_EQ(calls_of("cuPointerGetAttributes") - queries, kMessages);
        EXPECT_EQ(all_calls() - calls, kMessages);
    }
    EXPECT_EQ(allocations, 0u);
    cuMemFree(own);
    owner->free(key);
}

// A program whose buffers come and go, each at an address of its own.
TEST_F(Ipc, KeysOfFreedMemoryAreForgotten)
{
    Exports exports(driver());
    const auto tell = [&](CUdeviceptr address) {
        return exports.key_of(reinterpret_cast<void*>(address), 100);
    };
    const auto allocate = [](size_t number) {
        std::vector<CUdeviceptr> addresses(number);
        for (CUdeviceptr& address : addresses) {
            cuda::check(cuMemAlloc(&address, 4096), "cuMemAlloc");
        }
        return addresses;
    };
    const std::vector<CUdeviceptr> kept = allocate(100), passing = allocate(10'000);
    for (const CUdeviceptr address : kept) {
        tell(address);
    }
    size_t most = 0;
    for (const CUdeviceptr address : passing) {
        EXPECT_EQ(tell(address).base, address);
        cuMemFree(address);
        most = std::max(most, exports.count());
    }
    EXPECT_LE(most, 2 * kept.size());
    const uint64_t made = calls_of("cuIpcGetMemHandle");
    std::thread another([&] { // remembers none
        for (const CUdeviceptr address : kept) {
            EXPECT_EQ(tell(address).base, address);
        }
    });
    another.join();
    EXPECT_EQ(calls_of("cuIpcGetMemHandle"), made);
    for (const CUdeviceptr address : kept) {
        cuMemFree(address);
    }
}

TEST_F(Ipc, ThreadsShareRegionsThatComeAndGo)
{
    constexpr unsigned kRegions = 8, kThreads = 4, kRounds = 2000;
    constexpr size_t kSize = 4 << 20;
    memory_.enter(3 * kSize);
    std::vector<RemoteKey> keys;
    for (uint8_t i = 0; i < kRegions; ++i) {
        keys.push_back(owner->allocate(kSize, i));
    }
    std::atomic<unsigned> wrong = 0;
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
            const cuda::CurrentContext current(driver(), primary_->handle());
            for (unsigned i = 0; i < kRounds; ++i) {
                const unsigned index = (i * (thread + 1) / 3) % kRegions;
                Region* region = memory_.acquire(driver(), keys[index]);
                if (region == nullptr || !region->is(keys[index]) ||
                    (i % 16 == 0 && first_byte(*region) != index)) {
                    ++wrong;
                }
                if (region != nullptr) {
                    memory_.release(region);
                }
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(wrong, 0u);
    EXPECT_LE(memory_.counts().idle_bytes, 3 * kSize);
    EXPECT_EQ(memory_.counts().regions * kSize, memory_.counts().idle_bytes);
    for (const RemoteKey& key : keys) {
        owner->free(key);
    }
    memory_.leave();
}

// Real drivers may open it; UCP does not get there, as the addresses tell the namespaces apart.
TEST_F(Ipc, MemoryOfAnotherPidNamespaceDoesNotOpen)
{
    if (foreign == nullptr) {
        GTEST_SKIP() << "no right to make a pid namespace";
    }
    RemoteKey key;
    try {
        key = foreign->allocate(4 << 20, 1);
    } catch (const std::exception& error) {
        GTEST_SKIP() << "no CUDA in a pid namespace of its own: " << error.what();
    }
    ASSERT_EQ(key.sharing, Sharing::handle);
    Region* region = memory_.acquire(driver(), key);
    if (SOFTCUDA(softcuda_calls) != nullptr) {
        EXPECT_EQ(region, nullptr);
    }
    if (region != nullptr) {
        EXPECT_EQ(first_byte(*region), 1);
        memory_.release(region);
    }
}

TEST(IpcAddress, WhoIsReached)
{
    const Address own = make_address();
    EXPECT_FALSE(reaches(own, &own));
    EXPECT_FALSE(reaches(own, nullptr));
    Address other = own;
    other.process.id ^= 1;
    other.process.pid += 1;
    EXPECT_TRUE(reaches(own, &other));
    other.process.pid = own.process.pid; // recycled
    EXPECT_TRUE(reaches(own, &other));
    other.process.pid_namespace ^= 1;
    EXPECT_FALSE(reaches(own, &other));
    other.process.pid_namespace ^= 1;
    other.process.host ^= 1;
    EXPECT_FALSE(reaches(own, &other));
    other.process.host ^= 1;
    other.tag ^= 1;
    EXPECT_FALSE(reaches(own, &other));
    const uint32_t shorter_address = 0x59504367;
    EXPECT_FALSE(reaches(own, &shorter_address));
}

int exit_status(pid_t child)
{
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(Ipc, AForkedChildIsAnotherProcess)
{
    const Process parent = this_process();
    const pid_t child = fork();
    if (child == 0) {
        _exit(this_process().id != parent.id ? 0 : 1);
    }
    EXPECT_EQ(exit_status(child), 0);
    EXPECT_EQ(this_process().id, parent.id);
}

TEST_F(Ipc, AnAllocationIsSharedByTheBlocksThatUcpRegisters)
{
    CUdeviceptr memory = 0;
    ASSERT_EQ(driver().cuMemAlloc(&memory, 1000), CUDA_SUCCESS);
    Exports exports(driver());
    const auto sharing = [&](size_t length) {
        return exports.key_of(reinterpret_cast<const void*>(memory), length).sharing;
    };
    EXPECT_EQ(sharing(1000), Sharing::handle);
    EXPECT_EQ(sharing(1008), Sharing::handle); // in blocks of 16 bytes
    EXPECT_EQ(sharing(1040), Sharing::none);   // another allocation's
    driver().cuMemFree(memory);
}

// CUDA does not work in it: memory is neither told nor opened, an endpoint made before reaches
// nobody, and nothing crashes.
TEST_F(Ipc, AForkedChildRefuses)
{
    const RemoteKey open = owner->allocate(1 << 20, 1), closed = owner->allocate(1 << 20, 2);
    Region* region = memory_.acquire(driver(), open);
    ASSERT_NE(region, nullptr);
    CUdeviceptr own = 0;
    ASSERT_EQ(cuMemAlloc(&own, 1 << 20), CUDA_SUCCESS);
    MdSettings settings{};
    settings.cache_size = SIZE_MAX;
    MemoryDomain domain(driver(), settings);
    uct_mem_h memory = nullptr;
    ASSERT_EQ(domain.reg(reinterpret_cast<void*>(own), 100, {}, &memory), UCS_OK);
    RemoteKey told;
    ASSERT_EQ(domain.pack_rkey(memory, nullptr, 0, &told), UCS_OK);
    ASSERT_EQ(told.sharing, Sharing::handle);
    uct_rkey_t rkey = 0;
    void* handle = nullptr;
    ASSERT_EQ(unpack_rkey(&open, &rkey, &handle), UCS_OK);
    const Address ours = make_address();
    Address theirs = ours;
    theirs.process.id ^= 1;
    ASSERT_TRUE(reaches(ours, &theirs));
    const pid_t child = fork();
    if (child == 0) {
        const bool refused = domain.pack_rkey(memory, nullptr, 0, &told) == UCS_OK &&
                             told.sharing == Sharing::none && told.length == 0 &&
                             unpack_rkey(&open, &rkey, &handle) == UCS_ERR_UNREACHABLE &&
                             unpack_rkey(&closed, &rkey, &handle) == UCS_ERR_UNREACHABLE &&
                             !reaches(ours, &theirs);
        release_rkey(rkey, handle);
        domain.dereg(memory, nullptr);
        _exit(refused ? 0 : 1);
    }
    EXPECT_EQ(exit_status(child), 0);
    EXPECT_EQ(first_byte(*region), 1); // as before in the parent
    EXPECT_EQ(domain.pack_rkey(memory, nullptr, 0, &told), UCS_OK);
    EXPECT_EQ(told.sharing, Sharing::handle);
    release_rkey(rkey, handle);
    EXPECT_EQ(domain.dereg(memory, nullptr), UCS_OK);
    memory_.release(region);
    cuMemFree(own);
    owner->free(open);
    owner->free(closed);
}

bool may_make_pid_namespaces()
{
    const pid_t child = fork();
    if (child == 0) {
        _exit(unshare(CLONE_NEWPID | CLONE_NEWNS) == 0 ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return status == 0;
}

} // namespace

int main(int argc, char** argv)
{
    setenv("SOFTCUDA_IPC", "fabric", 1);
    static Owner first, second, third(Owner::Namespace::ours, Owner::Life::many), fourth;
    owner = &first;
    mortal = &second;
    reborn = &third;
    forking = &fourth;
    static Owner fifth, sixth, seventh;
    asked_once[0] = &fifth;
    asked_once[1] = &sixth;
    untouched = &seventh;
    if (may_make_pid_namespaces()) {
        static Owner eighth(Owner::Namespace::own);
        foreign = &eighth;
    }
    return run_tests(argc, argv);
}
