// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Keys of another process's memory, and what is open of it: by the classes themselves, since UCX
// has no way to look into the cache. The owner is a process of its own, forked before CUDA is used.
#include "cuda/driver.hpp"
#include "ipc/address.hpp"
#include "ipc/exports.hpp"
#include "ipc/process.hpp"
#include "ipc/remote_memory.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace gdr;
using namespace gdr::ipc;

namespace {

const cuda::Driver& driver()
{
    return *cuda::driver();
}

// In a process of its own: allocates, tells the key, frees.
class Owner {
  public:
    Owner()
    {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
            throw std::runtime_error("socketpair");
        pid_ = fork();
        socket_ = pair[pid_ == 0];
        close(pair[pid_ != 0]);
        if (pid_ == 0) {
            serve();
            _exit(0);
        }
    }
    ~Owner() { kill(); }

    void kill()
    {
        if (pid_ <= 0)
            return;
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
    void free(const RemoteKey& key) { ask({Request::free, key.base, 0}); }

  private:
    enum class Request : uint64_t { allocate, free };
    struct Question {
        Request request;
        uint64_t argument;
        uint64_t fill;
    };

    void ask(const Question& question)
    {
        if (write(socket_, &question, sizeof(question)) != sizeof(question))
            throw std::runtime_error("the owner has gone");
        if (question.request == Request::free) {
            char done;
            take(&done, 1);
        }
    }
    void take(void* to, size_t length)
    {
        if (recv(socket_, to, length, MSG_WAITALL) != static_cast<ssize_t>(length))
            throw std::runtime_error("the owner has gone");
    }

    void serve()
    {
        const cuda::PrimaryContext primary(driver(), 0);
        const cuda::CurrentContext current(driver(), primary.handle());
        Exports exports(driver());
        for (Question question; recv(socket_, &question, sizeof(question), MSG_WAITALL) > 0;) {
            CUdeviceptr address = question.argument;
            if (question.request == Request::free) {
                cuda::check(driver().cuMemFree(address), "cuMemFree");
                (void)!write(socket_, "", 1);
                continue;
            }
            cuda::check(driver().cuMemAlloc(&address, question.argument), "cuMemAlloc");
            cuda::check(driver().cuMemsetD8(address, static_cast<unsigned char>(question.fill),
                                            question.argument),
                        "cuMemsetD8");
            const RemoteKey key =
                exports.key_of(reinterpret_cast<void*>(address), question.argument);
            (void)!write(socket_, &key, sizeof(key));
        }
    }

    pid_t pid_;
    int socket_;
};

// Made before CUDA is used.
Owner* owner;
Owner* mortal;  // killed in a test
Owner* foreign; // in a pid namespace of its own; nullptr without the right to make one

class Ipc : public testing::Test {
  protected:
    void SetUp() override
    {
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
        const CUdeviceptr from = region.reach(0, region.key().base);
        cuda::check(driver().cuMemcpy(reinterpret_cast<CUdeviceptr>(&byte), from, 1), "cuMemcpy");
        return byte;
    }

    RemoteMemory& memory_ = RemoteMemory::instance();
    std::unique_ptr<cuda::PrimaryContext> primary_;
    std::unique_ptr<cuda::CurrentContext> current_;
};

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
    Region* region = memory_.acquire(driver(), now);
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
    ASSERT_EQ(now.base, old.base);
    Region* region = memory_.acquire(driver(), now);
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(first_byte(*region), 2);
    EXPECT_EQ(memory_.counts().regions, 2u);
    memory_.release(stale);
    EXPECT_EQ(memory_.counts().regions, 1u);
    memory_.release(region);
    owner->free(now);
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
    const RemoteKey opened = mortal->allocate(1 << 20, 5);
    const RemoteKey never = mortal->allocate(1 << 20, 6);
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
    for (const RemoteKey& key : keys)
        owner->free(key);
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
    for (const RemoteKey& key : keys)
        owner->free(key);
}

TEST_F(Ipc, MemoryOfAnotherPidNamespaceDoesNotOpen)
{
    if (foreign == nullptr)
        GTEST_SKIP() << "no right to make a pid namespace";
    const RemoteKey key = foreign->allocate(1 << 20, 1);
    ASSERT_EQ(key.sharing, Sharing::handle);
    EXPECT_EQ(memory_.acquire(driver(), key), nullptr);
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
    const uint32_t copys = 0x59504367; // a shorter address
    EXPECT_FALSE(reaches(own, &copys));
}

TEST_F(Ipc, AForkedChildIsAnotherProcess)
{
    const Process parent = this_process();
    const pid_t child = fork();
    if (child == 0)
        _exit(this_process().id != parent.id ? 0 : 1);
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(this_process().id, parent.id);
}

} // namespace

int main(int argc, char** argv)
{
    static Owner first, second;
    owner = &first;
    mortal = &second;
    if (unshare(CLONE_NEWPID) == 0) {
        static Owner third;
        foreign = &third;
    }
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
