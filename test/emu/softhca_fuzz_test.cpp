// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// softhca beside a neighbour that runs wild: it scribbles over the shared memory that it can write,
// or dies at any point. Those who go on may see errors and lose completions, but every verbs call
// returns, nobody crashes, and what they create afterwards works.
//
// SOFTHCA_FUZZ_SEED and SOFTHCA_FUZZ_ROUNDS choose other seeds, one a round, and more of them.
#include "softhca_fixture.hpp"

#include "emu/softhca/layout.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;
using Random = std::mt19937_64;

std::uint64_t variable(const char* name, std::uint64_t otherwise)
{
    const char* value = std::getenv(name);
    return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

softhca::Fabric& map_fabric()
{
    const std::string pattern =
        "/dev/shm/softhca-" + std::to_string(geteuid()) + "-" + getenv("SOFTHCA_FABRIC") + ".*";
    glob_t found;
    if (glob(pattern.c_str(), 0, nullptr, &found) != 0) {
        throw std::runtime_error("no fabric");
    }
    const int fd = open(found.gl_pathv[0], O_RDWR);
    globfree(&found);
    void* memory =
        mmap(nullptr, sizeof(softhca::Fabric), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED) {
        throw std::runtime_error("cannot map the fabric");
    }
    return *static_cast<softhca::Fabric*>(memory);
}

// The arenas of all processes but this one.
std::vector<softhca::Arena*> map_arenas(const softhca::Fabric& fabric)
{
    std::vector<softhca::Arena*> arenas;
    for (const softhca::ProcessSlot& slot : fabric.processes) {
        if (slot.token.load() == 0 || slot.pid == getpid()) {
            continue;
        }
        const std::string path =
            "/proc/" + std::to_string(slot.pid) + "/fd/" + std::to_string(slot.arena_fd);
        const int fd = open(path.c_str(), O_RDWR);
        void* memory = mmap(nullptr, softhca::kArenaSize, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_NORESERVE, fd, 0);
        close(fd);
        if (fd >= 0 && memory != MAP_FAILED) {
            arenas.push_back(static_cast<softhca::Arena*>(memory));
        }
    }
    return arenas;
}

// Values that break things: all kinds of limits, and what stands elsewhere.
std::uint64_t nasty(Random& random)
{
    static constexpr std::uint64_t values[] = {0,
                                               1,
                                               2,
                                               7,
                                               255,
                                               256,
                                               8191,
                                               8192,
                                               65535,
                                               65536,
                                               0x7fffffff,
                                               0x80000000,
                                               0xffffffff,
                                               0x100000000,
                                               0x7fffffffffffffff,
                                               0x8000000000000000,
                                               0xffffffffffffffff};
    switch (random() % 4) {
    case 0:
        return random();
    case 1:
        return random() % 256;
    default:
        return values[random() % std::size(values)];
    }
}

// Overwrites one to eight bytes, aligned.
void scribble(Random& random, void* begin, std::size_t size)
{
    const std::size_t width = std::size_t{1} << random() % 4;
    if (size < width) {
        return;
    }
    char* at = static_cast<char*>(begin) + random() % (size / width) * width;
    const std::uint64_t value = nasty(random);
    std::memcpy(at, &value, width);
}

// Somewhere in what the objects in use have in an arena. The locks are spared: to find out that a
// live process never took one takes long on purpose. So is the count of windows that keep a region.
void scribble_on(Random& random, softhca::Arena& arena)
{
    const auto behind_lock = [&](auto& object) {
        char* begin = reinterpret_cast<char*>(&object.lock) + sizeof object.lock;
        scribble(random, begin,
                 static_cast<std::size_t>(reinterpret_cast<char*>(&object + 1) - begin));
    };
    const std::uint32_t index = static_cast<std::uint32_t>(random() % 8);
    softhca::QpShared& qp = arena.qps[index];
    switch (random() % 7) {
    case 0:
        scribble(random, &qp, offsetof(softhca::QpShared, lock));
        break;
    case 1:
        behind_lock(qp);
        break;
    case 2:
        behind_lock(arena.cqs[index]);
        break;
    case 3:
        scribble(random, &arena.recv_queues[index], offsetof(softhca::RqShared, lock));
        break;
    case 4:
        behind_lock(arena.recv_queues[index]);
        break;
    case 5:
        scribble(random, &arena.mrs[index], offsetof(softhca::MrShared, windows));
        break;
    default: // rings, work requests, slots
        scribble(random, arena.heap, std::size_t{4} << 20);
        break;
    }
}

// An application: all operations on a few queue pairs for a time. It takes every error as it comes
// and makes new queue pairs for failed ones. What it sends, receives, and reads, and what others
// write, have each their part of a buffer.
class Traffic {
  public:
    explicit Traffic(Device& device) : device_(device)
    {
        for (unsigned i = 0; i < pairs_.size(); ++i) {
            connect_pair(i);
        }
    }
    // With a queue pair of another process, as far as it goes.
    void meet(Child::Link& link)
    {
        Options options;
        options.retry_count = 0;
        partner_ = std::make_unique<Endpoint>(device_, options);
        link.put(partner_->address());
        address_ = link.get<Address>();
        partner_->to_rtr(address_);
        partner_->to_rts();
    }
    void run(std::chrono::milliseconds time, Random& random)
    {
        for (const auto end = Clock::now() + time; Clock::now() < end;) {
            step(random);
        }
    }

  private:
    static constexpr std::uint32_t kLargest = 20000;
    static constexpr std::size_t kRead = 1 * kLargest, kReceived = 2 * kLargest,
                                 kForOthers = 3 * kLargest;

    struct Pair {
        std::unique_ptr<Endpoint> a, b;
        unsigned age = 0;
    };

    void connect_pair(unsigned i)
    {
        Options options;
        options.retry_count = 0;
        options.timeout = 8;
        pairs_[i] = {std::make_unique<Endpoint>(device_, options),
                     std::make_unique<Endpoint>(device_, options)};
        const Address a = pairs_[i].a->address(), b = pairs_[i].b->address();
        pairs_[i].a->to_rtr(b);
        pairs_[i].b->to_rtr(a);
        pairs_[i].a->to_rts();
        pairs_[i].b->to_rts();
    }
    static void poll(Endpoint& endpoint)
    {
        ibv_wc wc[8];
        ibv_poll_cq(endpoint.cq, 8, wc);
    }
    static void post(Endpoint& from, const Address& to, Random& random)
    {
        constexpr std::uint32_t sizes[] = {0, 8, 100, 5000, kLargest};
        const std::uint64_t target = to.buffer + kForOthers;
        const std::uint32_t size = sizes[random() % std::size(sizes)];
        switch (random() % 6) {
        case 0:
            from.post_rdma(IBV_WR_RDMA_WRITE, 0, size, target, to.rkey);
            break;
        case 1:
            from.post_rdma(IBV_WR_RDMA_READ, kRead, size, target, to.rkey);
            break;
        case 2:
            from.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, kRead, target, to.rkey, 1);
            break;
        case 3:
            from.post_rdma(IBV_WR_RDMA_WRITE_WITH_IMM, 0, size, target, to.rkey);
            break;
        default:
            from.post_send(0, size);
            break;
        }
    }
    void step(Random& random)
    {
        const unsigned i = static_cast<unsigned>(random() % pairs_.size());
        Pair& pair = pairs_[i];
        if (pair.age == 500) {
            pair = {};
        }
        if (pair.b == nullptr) {
            try {
                connect_pair(i);
            } catch (const std::runtime_error&) {
                return; // it was hit before it was ready
            }
        }
        ++pair.age;
        if (random() % 8 != 0) { // or it has to wait
            pair.b->post_receive(kReceived, kLargest);
        }
        post(*pair.a, pair.b->address(), random);
        poll(*pair.a);
        poll(*pair.b);
        if (partner_ != nullptr) {
            partner_->post_receive(kReceived, kLargest);
            post(*partner_, address_, random);
            poll(*partner_);
        }
    }

    Device& device_;
    std::array<Pair, 2> pairs_;
    std::unique_ptr<Endpoint> partner_;
    Address address_{};
};

// All is well between two queue pairs that are new.
void expect_health(Device& device)
{
    Endpoint a(device), b(device);
    connect(a, b);
    for (std::uint32_t size : {8u, 5000u, 100000u}) {
        fill(a.buffer.data(), size, size);
        ASSERT_EQ(b.post_receive(0, size), 0);
        ASSERT_EQ(a.post_send(0, size), 0);
        ASSERT_EQ(a.next().status, IBV_WC_SUCCESS);
        ASSERT_EQ(b.next().status, IBV_WC_SUCCESS);
        ASSERT_TRUE(is_filled(b.buffer.data(), size, size));
    }
}

constexpr std::chrono::milliseconds kTime{300};

// One round: two that work with each other, and a neighbour that attacks.
void round(std::uint64_t seed, const std::function<void(Random&)>& attack, bool health)
{
    SCOPED_TRACE("SOFTHCA_FUZZ_SEED=" + std::to_string(seed));
    const auto survivor = [seed, health](Child::Link& link, unsigned number) {
        Random random(seed * 3 + number);
        Device device;
        {
            Traffic traffic(device);
            traffic.meet(link);
            link.put('r');
            link.get<char>();
            traffic.run(kTime, random);
            link.put('d');
            link.get<char>(); // the attack is over
        }
        if (health) {
            expect_health(device);
        }
    };
    Child first([&](Child::Link& link) { survivor(link, 1); });
    Child second([&](Child::Link& link) { survivor(link, 2); });
    const Address a = first.link().get<Address>(), b = second.link().get<Address>();
    first.link().put(b);
    second.link().put(a);
    first.link().get<char>();
    second.link().get<char>();
    {
        Child attacker([&](Child::Link& link) {
            Random random(seed);
            link.put('r');
            attack(random);
        });
        attacker.link().get<char>();
        first.link().put('g');
        second.link().put('g');
        first.link().get<char>();
        second.link().get<char>();
    } // killed, wherever it is
    first.link().put('e');
    second.link().put('e');
    first.join();
    second.join();
}

void rounds(const std::function<void(Random&)>& attack, bool health)
{
    const std::uint64_t first = variable("SOFTHCA_FUZZ_SEED", 1);
    const std::uint64_t count = variable("SOFTHCA_FUZZ_ROUNDS", 5);
    for (std::uint64_t seed = first; seed < first + count && !::testing::Test::HasFailure();
         ++seed) {
        round(seed, attack, health);
    }
}

TEST(DISABLED_Fuzz, ScribblesOnArenas)
{
    rounds(
        [](Random& random) {
            const std::vector<softhca::Arena*> arenas = map_arenas(map_fabric());
            while (true) {
                scribble_on(random, *arenas[random() % arenas.size()]);
                if (random() % 4 == 0) {
                    sched_yield();
                }
            }
        },
        true);
}

// What an arena says of its process is not mended: nobody has to reach it any more.
TEST(DISABLED_Fuzz, ScribblesOnArenasHeads)
{
    rounds(
        [](Random& random) {
            const std::vector<softhca::Arena*> arenas = map_arenas(map_fabric());
            while (true) {
                scribble(random, arenas[random() % arenas.size()],
                         offsetof(softhca::Arena, in_progress));
                sched_yield();
            }
        },
        false);
}

// Nobody may be reached any more; whoever opens a device when all have gone finds a sound fabric.
TEST(DISABLED_Fuzz, ScribblesOnTheFabric)
{
    rounds(
        [](Random& random) {
            softhca::Fabric& fabric = map_fabric();
            while (true) {
                scribble(random, &fabric, sizeof fabric);
                sched_yield();
            }
        },
        false);
    Device device;
    expect_health(device);
}

// Members that die at any point of their work.
TEST(DISABLED_Fuzz, DeathAtAnyPoint)
{
    rounds(
        [](Random& random) {
            while (true) {
                const pid_t pid = fork();
                if (pid == 0) {
                    Device device;
                    Traffic traffic(device);
                    traffic.run(std::chrono::seconds(5), random);
                    _exit(1);
                }
                usleep(static_cast<useconds_t>(random() % 30000));
                kill(pid, SIGKILL);
                waitpid(pid, nullptr, 0);
            }
        },
        true);
}

// In processes of their own: this one may be a member of its fabric, and so keeps what is broken.
bool run_alone(const char* test, const std::vector<std::string>& environment = {})
{
    std::vector<std::string> settings = environment;
    settings.push_back("SOFTHCA_FABRIC=fuzz-" + std::to_string(getpid()));
    return run_tests(std::string("DISABLED_Fuzz.") + test, settings);
}

// The thread sanitizer does not see who scribbles, but that payload moves when nobody expects it.
bool run_scribbler(const char* test)
{
    const char* options = std::getenv("TSAN_OPTIONS");
    return run_alone(test, {std::string("TSAN_OPTIONS=") + (options == nullptr ? "" : options) +
                            ":report_bugs=0"});
}

TEST(Fuzz, ScribblesOnArenas)
{
    EXPECT_TRUE(run_scribbler("ScribblesOnArenas"));
}

TEST(Fuzz, ScribblesOnArenasHeads)
{
    EXPECT_TRUE(run_scribbler("ScribblesOnArenasHeads"));
}

TEST(Fuzz, ScribblesOnTheFabric)
{
    EXPECT_TRUE(run_scribbler("ScribblesOnTheFabric"));
}

TEST(Fuzz, DeathAtAnyPoint)
{
    EXPECT_TRUE(run_alone("DeathAtAnyPoint"));
}

} // namespace
