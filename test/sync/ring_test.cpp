// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The rings by which kernels initiate operations: the device's functions, compiled for the host,
// write into one in many threads, and lanes of the test's own carry what is read from it.
#include "sync/rings/ring.hpp"
#include "sync/ucx-gdr/ugdr_initiate.cuh"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <random>
#include <thread>

namespace gdr::sync {
namespace {

constexpr unsigned kKernels = 8;

// Does what it is told in memory, and tells of it as late as it is allowed to.
class TestLane final : public Lane {
  public:
    bool post(const Transfer& transfer) override
    {
        if (pending.size() >= room) {
            return false;
        }
        pending.push_back(transfer);
        ++posted;
        return true;
    }

    void submit() override { ++submits; }

    unsigned poll(Retired& retired) override
    {
        const size_t allowed = held ? 0 : at_once;
        unsigned count = 0;
        for (; count < allowed && !pending.empty(); ++count) {
            const Transfer transfer = pending.front();
            pending.pop_front();
            if (failing == UCS_OK) {
                run(transfer);
            }
            retired.retired(transfer.ticket, failing);
        }
        return count;
    }

    std::deque<Transfer> pending;
    size_t room = 64, at_once = 64, posted = 0, submits = 0;
    std::atomic<bool> held{false};
    ucs_status_t failing = UCS_OK;

  private:
    static char* at(uint64_t address, uint64_t offset)
    {
        return reinterpret_cast<char*>(address + offset);
    }
    static uint64_t add(char* word, uint64_t value)
    {
        return __atomic_fetch_add(reinterpret_cast<uint64_t*>(word), value, __ATOMIC_ACQ_REL);
    }
    static void run(const Transfer& t)
    {
        char* remote = at(t.remote->address, t.remote_offset);
        char* local = t.local != nullptr ? at(t.local->address, t.offset) : nullptr;
        char* signal = t.signal != nullptr ? at(t.signal->address, t.signal_offset) : nullptr;
        switch (t.kind) {
        case Transfer::Kind::put:
        case Transfer::Kind::put_signal_set:
        case Transfer::Kind::put_signal_add:
            std::memcpy(remote, local, t.length);
            break;
        case Transfer::Kind::put_value:
            std::memcpy(remote, &t.value, t.length);
            break;
        case Transfer::Kind::get:
            std::memcpy(local, remote, t.length);
            break;
        case Transfer::Kind::add:
            add(remote, t.value);
            break;
        case Transfer::Kind::fetch_add: {
            const uint64_t was = add(remote, t.value);
            std::memcpy(local, &was, sizeof(was));
            break;
        }
        }
        if (t.kind == Transfer::Kind::put_signal_set) {
            __atomic_store_n(reinterpret_cast<uint64_t*>(signal), t.value, __ATOMIC_RELEASE);
        } else if (t.kind == Transfer::Kind::put_signal_add) {
            add(signal, t.value);
        }
    }
};

class Events final : public RingEvents {
  public:
    void failed(ucs_status_t status, const std::string& what) override
    {
        statuses.push_back(status);
        causes.push_back(what);
    }
    void flush() override { ++flushes; }

    std::vector<ucs_status_t> statuses;
    std::vector<std::string> causes;
    int flushes = 0;
};

// A device of one channel, two peers with a memory each, and a memory of our own.
class RingTest : public testing::Test {
  protected:
    static constexpr unsigned kLength = 4096;

    RingTest() { make(4); }
    ~RingTest() override { stop(); }

    void make(unsigned log_entries, bool flushes = false)
    {
        stop();
        entries_ = std::vector<Entry>(size_t{1} << log_entries);
        completed_ = std::vector<Completed>(2);
        counters_.assign(ugdr_detail::kCounterWords, 0);
        device_ = {reinterpret_cast<unsigned long long*>(entries_.data()),
                   reinterpret_cast<unsigned long long*>(completed_.data()),
                   counters_.data(),
                   1,
                   log_entries,
                   1,
                   nullptr};
        ring_ = std::make_unique<Ring>(
            Ring::Place{0, entries_.data(), log_entries, completed_.data(), flushes}, memories_,
            remotes_, events_);
        for (unsigned i = 0; i < 2; ++i) {
            auto lane = std::make_unique<TestLane>();
            lane_[i] = lane.get();
            lanes_[i] = std::make_unique<Lanes>();
            std::vector<std::unique_ptr<Lane>> all;
            all.push_back(std::move(lane));
            lanes_[i]->set(std::move(all));
            at_[i].assign(kLength, 0);
            rmem_[i] = remotes_.add({lanes_[i].get(), address(at_[i]), kLength});
        }
        own_.assign(kLength, 0);
        mem_ = id_of(memories_.add(of_host(address(own_), kLength)), true);
    }

    static uint64_t address(std::vector<char>& memory)
    {
        return reinterpret_cast<uint64_t>(memory.data());
    }
    template <typename Value = uint64_t>
    static Value* words(std::vector<char>& memory)
    {
        return reinterpret_cast<Value*>(memory.data());
    }

    static Memory of_host(uint64_t address, uint64_t length)
    {
        Memory memory;
        memory.address = address;
        memory.length = length;
        memory.host = true;
        return memory;
    }
    Memory of_gpu()
    {
        Memory memory = of_host(address(own_), kLength);
        memory.host = false;
        return memory;
    }

    // The thread of the library.
    void start()
    {
        stopping_ = false;
        thread_ = std::thread([this] {
            while (!stopping_) {
                if (ring_->progress() == 0) {
                    std::this_thread::yield();
                }
            }
        });
    }
    void stop()
    {
        stopping_ = true;
        if (thread_.joinable()) {
            thread_.join();
        }
    }

    // In as many threads.
    template <typename Body>
    static void kernels(unsigned count, Body&& body)
    {
        std::vector<std::thread> threads;
        for (unsigned i = 0; i < count; ++i) {
            threads.emplace_back([&body, i] { body(i); });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
    }

    // Posts nothing wrong afterwards: is all over, and given back?
    void expect_nothing_in_use()
    {
        EXPECT_TRUE(memories_.end(number_of(mem_)));
        for (uint32_t rmem : rmem_) {
            EXPECT_TRUE(remotes_.end(rmem));
        }
    }

    std::vector<Entry> entries_;
    std::vector<Completed> completed_;
    std::vector<unsigned long long> counters_;
    ugdr_dev_t device_{};
    Memories memories_;
    RemoteMemories remotes_;
    Events events_;
    std::unique_ptr<Ring> ring_;
    std::unique_ptr<Lanes> lanes_[2];
    TestLane* lane_[2] = {};
    Lanes unconnected_;
    std::vector<char> at_[2], own_;
    uint32_t rmem_[2] = {}, mem_ = 0;

  private:
    std::thread thread_;
    std::atomic<bool> stopping_{true};
};

// Each argument comes through whole, the highest bits as well.
TEST_F(RingTest, EveryBitOfAnEntry)
{
    lane_[0]->held = true;
    std::mt19937_64 random(1);
    for (unsigned round = 0; round < 64; ++round) {
        const uint64_t value = random() | 1ull << 63;
        ugdr_dev_put_value(device_, 0, value, 8, rmem_[0], 16);
        ring_->progress();
        ASSERT_EQ(lane_[0]->pending.size(), 1u);
        const Transfer& t = lane_[0]->pending.front();
        EXPECT_EQ(t.kind, Transfer::Kind::put_value);
        EXPECT_EQ(t.value, value);
        EXPECT_EQ(t.remote_offset, 16u);
        EXPECT_EQ(t.length, 8u);
        EXPECT_EQ(t.ticket, round);
        lane_[0]->held = false;
        ring_->progress();
        lane_[0]->held = true;
    }
}

TEST_F(RingTest, EveryKind)
{
    start();
    auto* own = words(own_);
    auto* peer = words(at_[0]);
    own[0] = 17;
    own[1] = 18;
    ugdr_dev_put(device_, 0, mem_, 0, rmem_[0], 8, 16);
    EXPECT_EQ(ugdr_dev_quiet(device_, 0), UCS_OK);
    EXPECT_EQ(peer[1], 17u);
    EXPECT_EQ(peer[2], 18u);
    ugdr_dev_put_signal(device_, 0, mem_, 8, rmem_[0], 64, 8, rmem_[0], 128, 5);
    const unsigned long long last = ugdr_dev_put_signal(device_, 0, mem_, 8, rmem_[0], 72, 8,
                                                        rmem_[0], 128, 6, UGDR_SIGNAL_ADD);
    EXPECT_EQ(
        ugdr_dev_signal_wait(device_, reinterpret_cast<const unsigned long long*>(peer + 16), 11),
        UCS_OK);
    EXPECT_EQ(peer[8], 18u);
    EXPECT_EQ(peer[9], 18u);
    EXPECT_EQ(ugdr_dev_quiet(device_, 0, last), UCS_OK);
    EXPECT_TRUE(ugdr_dev_done(device_, 0, last));
    EXPECT_FALSE(ugdr_dev_done(device_, 0, last + 1));
    for (unsigned bytes = 1; bytes <= 8; ++bytes) {
        peer[20] = 0;
        ugdr_dev_put_value(device_, 0, 0x1122334455667788, bytes, rmem_[0], 160);
        EXPECT_EQ(ugdr_dev_quiet(device_, 0), UCS_OK);
        EXPECT_EQ(peer[20], 0x1122334455667788 & (~0ull >> (64 - bytes * 8)));
    }
    ugdr_dev_get(device_, 0, mem_, 256, rmem_[0], 8, 16);
    ugdr_dev_atomic_add(device_, 0, rmem_[0], 8, 3);
    ugdr_dev_atomic_fetch_add(device_, 0, mem_, 512, rmem_[0], 8, 4);
    EXPECT_EQ(ugdr_dev_quiet(device_, 0), UCS_OK);
    EXPECT_EQ(own[32], 17u);
    EXPECT_EQ(own[33], 18u);
    EXPECT_EQ(own[64], 20u);
    EXPECT_EQ(peer[1], 24u);
    ugdr_dev_put(device_, 0, mem_, kLength, rmem_[0], kLength, 0); // nothing, at the end
    EXPECT_EQ(ugdr_dev_quiet(device_, 0), UCS_OK);
    stop();
    EXPECT_FALSE(ring_->busy());
    expect_nothing_in_use();
}

// Eight threads fill a ring of 16 entries again and again: nothing is lost, and nothing is told to
// be complete that is not.
TEST_F(RingTest, ManyKernelsAndManyLaps)
{
    constexpr unsigned kTimes = 4000;
    start();
    kernels(kKernels, [&](unsigned kernel) {
        for (unsigned i = 1; i <= kTimes; ++i) {
            ugdr_dev_atomic_add(device_, 0, rmem_[kernel % 2], 8 * kernel, i);
            if (i % 100 == 0) {
                EXPECT_EQ(ugdr_dev_quiet(device_, 0), UCS_OK);
                const uint64_t sum =
                    __atomic_load_n(words(at_[kernel % 2]) + kernel, __ATOMIC_RELAXED);
                EXPECT_EQ(sum, uint64_t{i} * (i + 1) / 2);
            }
        }
    });
    stop();
    EXPECT_FALSE(ring_->busy());
    EXPECT_EQ(lane_[0]->posted + lane_[1]->posted, size_t{kKernels} * kTimes);
    EXPECT_EQ(completed_[0].word >> Completed::kStatusBits, uint64_t{kKernels} * kTimes);
    expect_nothing_in_use();
}

TEST_F(RingTest, AMillionEntries)
{
    constexpr unsigned kTimes = 1000000;
    for (unsigned i = 1; i <= kTimes; ++i) {
        ugdr_dev_atomic_add(device_, 0, rmem_[0], 0, i);
        if (i % 8 == 0) {
            EXPECT_EQ(ring_->progress(), 16u);
        }
    }
    EXPECT_EQ(*words(at_[0]), uint64_t{kTimes} * (kTimes + 1) / 2);
    EXPECT_FALSE(ring_->busy());
}

// Each of them waits for its own tickets.
TEST_F(RingTest, QuietOfManyKernels)
{
    constexpr unsigned kTimes = 500;
    lane_[0]->at_once = 3;
    lane_[1]->at_once = 5;
    start();
    kernels(kKernels, [&](unsigned kernel) {
        uint64_t* from = words(own_) + kernel;
        uint64_t* to = words(at_[kernel % 2]) + kernel;
        for (unsigned i = 1; i <= kTimes; ++i) {
            *from = i;
            const auto ticket = ugdr_dev_put(device_, 0, mem_, 8 * kernel, rmem_[kernel % 2],
                                             8 * kernel, sizeof(uint64_t));
            EXPECT_EQ(ugdr_dev_quiet(device_, 0, ticket), UCS_OK);
            EXPECT_EQ(*to, i);
        }
    });
    stop();
    expect_nothing_in_use();
}

// A ring of kernels that waits for room in a lane, and kernels that wait for room in the ring.
TEST_F(RingTest, FullLaneAndFullRing)
{
    lane_[0]->room = 4;
    lane_[0]->held = true;
    std::atomic<unsigned> posted{0};
    start();
    std::thread kernel([&] {
        for (unsigned i = 0; i < 40; ++i) {
            ugdr_dev_atomic_add(device_, 0, rmem_[0], 0, 1);
            ++posted;
        }
    });
    while (posted < 16) {
        std::this_thread::yield();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(posted, 16u);
    EXPECT_TRUE(ring_->busy());
    lane_[0]->held = false;
    kernel.join();
    EXPECT_EQ(ugdr_dev_quiet(device_, 0), UCS_OK);
    stop();
    EXPECT_EQ(*words(at_[0]), 40u);
    expect_nothing_in_use();
}

// What is complete behind something that is not has to wait.
TEST_F(RingTest, Holes)
{
    lane_[0]->held = true;
    const auto first = ugdr_dev_atomic_add(device_, 0, rmem_[0], 0, 1);
    const auto second = ugdr_dev_atomic_add(device_, 0, rmem_[1], 0, 1);
    const auto third = ugdr_dev_atomic_add(device_, 0, rmem_[0], 0, 1);
    for (int i = 0; i < 10; ++i) {
        ring_->progress();
    }
    EXPECT_EQ(*words(at_[1]), 1u);
    EXPECT_FALSE(ugdr_dev_done(device_, 0, first));
    EXPECT_FALSE(ugdr_dev_done(device_, 0, second));
    lane_[0]->held = false;
    lane_[0]->at_once = 1;
    ring_->progress();
    EXPECT_TRUE(ugdr_dev_done(device_, 0, second));
    EXPECT_FALSE(ugdr_dev_done(device_, 0, third));
    ring_->progress();
    EXPECT_TRUE(ugdr_dev_done(device_, 0, third));
    expect_nothing_in_use();
}

// A chain of work requests for what a round takes.
TEST_F(RingTest, OneSubmitForARound)
{
    for (int i = 0; i < 16; ++i) {
        ugdr_dev_atomic_add(device_, 0, rmem_[0], 0, 1);
    }
    EXPECT_EQ(ring_->progress(), 32u);
    EXPECT_EQ(lane_[0]->submits, 1u);
    EXPECT_EQ(ring_->progress(), 0u);
    EXPECT_EQ(lane_[0]->submits, 1u);
}

// A kernel's mistake is told to it and touches nothing; what comes after takes place.
TEST_F(RingTest, WrongArguments)
{
    struct Wrong {
        const char* cause;
        std::function<void()> post;
    };
    const uint32_t gone = remotes_.add({lanes_[0].get(), address(at_[0]), kLength});
    ASSERT_TRUE(remotes_.end(gone));
    const uint32_t nowhere = remotes_.add({&unconnected_, 0x1000, 64});
    const Wrong wrongs[] = {
        {"ugdr_dev_put: there is no local memory of the id 0",
         [&] { ugdr_dev_put(device_, 0, 0, 0, rmem_[0], 0, 8); }},
        {"there is no local memory of the id 4294967295",
         [&] { ugdr_dev_put(device_, 0, ~0u, 0, rmem_[0], 0, 8); }},
        {"there is no remote memory of the id 0",
         [&] { ugdr_dev_get(device_, 0, mem_, 0, 0, 0, 8); }},
        {"there is no remote memory of the id", // with a bit too many
         [&] { ugdr_dev_put_value(device_, 0, 1, 8, rmem_[0] | 1u << 29, 0); }},
        {"there is no remote memory of the id", // that has been one
         [&] { ugdr_dev_put(device_, 0, mem_, 0, gone, 0, 8); }},
        {"8 bytes at 4089 are not within the local memory of 4096 bytes",
         [&] { ugdr_dev_put(device_, 0, mem_, kLength - 7, rmem_[0], 0, 8); }},
        {"8 bytes at 18446744073709551608 are not within the remote memory of 4096 bytes",
         [&] { ugdr_dev_put(device_, 0, mem_, 0, rmem_[0], ~0ull - 7, 8); }},
        {"8 bytes at 9223372036854775808 are not within the remote memory", // the bit that is moved
         [&] { ugdr_dev_put(device_, 0, mem_, 0, rmem_[0], 1ull << 63, 8); }},
        {"1 bytes at 4096 are not within the remote memory",
         [&] { ugdr_dev_put_value(device_, 0, 0, 1, rmem_[0], kLength); }},
        {"0 bytes of a value", [&] { ugdr_dev_put_value(device_, 0, 0, 0, rmem_[0], 0); }},
        {"9 bytes of a value", [&] { ugdr_dev_put_value(device_, 0, 0, 9, rmem_[0], 0); }},
        {"ugdr_dev_atomic_add: the remote word at 12 is not aligned to 8 bytes",
         [&] { ugdr_dev_atomic_add(device_, 0, rmem_[0], 12, 1); }},
        {"the local word at 4 is not aligned",
         [&] { ugdr_dev_atomic_fetch_add(device_, 0, mem_, 4, rmem_[0], 0, 1); }},
        {"there is no remote memory of the signal's id 5",
         [&] { ugdr_dev_put_signal(device_, 0, mem_, 0, rmem_[0], 0, 8, 5, 0, 1); }},
        {"8 bytes at 4092 are not within the signal's memory of 4096 bytes",
         [&] { ugdr_dev_put_signal(device_, 0, mem_, 0, rmem_[0], 0, 8, rmem_[0], 4092, 1); }},
        {"ugdr_dev_put_signal: the signal is of another peer than the data",
         [&] { ugdr_dev_put_signal(device_, 0, mem_, 0, rmem_[0], 0, 8, rmem_[1], 0, 1); }},
        {"an entry of kind 7",
         [&] {
             ugdr_detail::write(
                 device_, 0, {static_cast<ugdr_detail::Kind>(7), mem_, rmem_[0], 0, 0, 0, 0, 0, 8});
         }},
        {"the peer is not connected, or has no channel 0",
         [&] { ugdr_dev_put_value(device_, 0, 0, 1, nowhere, 0); }},
    };
    std::memset(own_.data(), 0x5a, kLength);
    for (const Wrong& wrong : wrongs) {
        SCOPED_TRACE(wrong.cause);
        events_.causes.clear();
        make(4); // the first failure is told
        wrong.post();
        const auto after = ugdr_dev_put_value(device_, 0, 7, 1, rmem_[1], 100);
        ring_->progress();
        EXPECT_TRUE(ugdr_dev_done(device_, 0, after));
        EXPECT_EQ(ugdr_dev_quiet(device_, 0), events_.statuses.back());
        ASSERT_EQ(events_.causes.size(), 1u);
        EXPECT_NE(events_.causes[0].find(wrong.cause), std::string::npos) << events_.causes[0];
        EXPECT_EQ(lane_[0]->posted, 0u);
        EXPECT_EQ(std::string(at_[0].data(), kLength), std::string(kLength, 0));
        EXPECT_EQ(at_[1][100], 7);
        EXPECT_FALSE(ring_->busy());
        expect_nothing_in_use();
    }
}

// What fails is over, and all that comes after is.
TEST_F(RingTest, FailedTransfers)
{
    lane_[0]->failing = UCS_ERR_ENDPOINT_TIMEOUT;
    for (int i = 0; i < 5; ++i) {
        ugdr_dev_atomic_add(device_, 0, rmem_[0], 0, 1);
        ugdr_dev_atomic_add(device_, 0, rmem_[1], 0, 1);
    }
    ring_->progress();
    EXPECT_EQ(ugdr_dev_quiet(device_, 0), UCS_ERR_ENDPOINT_TIMEOUT);
    EXPECT_EQ(*words(at_[1]), 5u);
    EXPECT_EQ(events_.causes, std::vector<std::string>{"ugdr_dev_atomic_add failed"});
    expect_nothing_in_use();
}

// What is read to memory of a GPU that does not see it by itself is flushed, once in a round,
// before the kernel is told.
TEST_F(RingTest, FlushesWhatIsRead)
{
    make(4, true);
    const uint32_t on_gpu = memories_.add(of_gpu());
    ugdr_dev_put(device_, 0, on_gpu, 0, rmem_[0], 0, 8);
    ugdr_dev_get(device_, 0, mem_, 0, rmem_[0], 0, 8);
    ring_->progress();
    EXPECT_EQ(events_.flushes, 0);
    for (int i = 0; i < 4; ++i) {
        ugdr_dev_get(device_, 0, on_gpu, 0, rmem_[0], 0, 8);
        ugdr_dev_atomic_fetch_add(device_, 0, on_gpu, 0, rmem_[0], 0, 8);
    }
    ring_->progress();
    EXPECT_EQ(events_.flushes, 1);
    make(4, false);
    const uint32_t again = memories_.add(of_gpu());
    ugdr_dev_get(device_, 0, again, 0, rmem_[0], 0, 8);
    ring_->progress();
    EXPECT_EQ(events_.flushes, 1);
}

// Longer ones than an entry can tell are cut, and the signal goes with the last piece.
TEST_F(RingTest, LongOnes)
{
    constexpr uint64_t kLong = 3ull << 30;
    lane_[0]->held = true;
    const uint32_t long_one = id_of(memories_.add(of_host(0x1000, kLong + 5)), true);
    const uint32_t there = remotes_.add({lanes_[0].get(), 0x1000, kLong + 5});
    const auto ticket =
        ugdr_dev_put_signal(device_, 0, long_one, 2, there, 1, kLong + 3, rmem_[0], 8, 1);
    EXPECT_EQ(ticket, 3u);
    ugdr_dev_get(device_, 0, long_one, 0, there, 0, kLong);
    ring_->progress();
    const auto& posted = lane_[0]->pending;
    ASSERT_EQ(posted.size(), 7u);
    uint64_t offset = 0;
    for (unsigned i = 0; i < 4; ++i) {
        EXPECT_EQ(posted[i].kind, i < 3 ? Transfer::Kind::put : Transfer::Kind::put_signal_set);
        EXPECT_EQ(posted[i].offset, offset + 2);
        EXPECT_EQ(posted[i].remote_offset, offset + 1);
        offset += posted[i].length;
    }
    EXPECT_EQ(offset, kLong + 3);
    for (unsigned i = 4; i < 7; ++i) {
        EXPECT_EQ(posted[i].kind, Transfer::Kind::get);
    }
}

// Memory that kernels use cannot go, and a ring with entries cannot.
TEST_F(RingTest, BusyUntilAllIsOver)
{
    lane_[0]->held = true;
    EXPECT_FALSE(ring_->busy());
    ugdr_dev_put(device_, 0, mem_, 0, rmem_[0], 0, 8);
    EXPECT_TRUE(ring_->busy());
    ring_->progress();
    EXPECT_TRUE(ring_->busy());
    EXPECT_TRUE(ring_->under_way());
    EXPECT_FALSE(memories_.end(number_of(mem_)));
    EXPECT_FALSE(remotes_.end(rmem_[0]));
    lane_[0]->held = false;
    ring_->progress();
    EXPECT_FALSE(ring_->busy());
    EXPECT_FALSE(ring_->under_way());
    expect_nothing_in_use();
}

// Whoever waits for completion, for room or for a signal goes on.
TEST_F(RingTest, AbandonedWhileKernelsWait)
{
    lane_[0]->held = true;
    unsigned long long never = 0;
    start();
    std::thread quiet([&] {
        ugdr_dev_atomic_add(device_, 0, rmem_[0], 0, 1);
        EXPECT_EQ(ugdr_dev_quiet(device_, 0), UCS_ERR_CANCELED);
    });
    std::thread full([&] {
        for (int i = 0; i < 100; ++i) {
            ugdr_dev_atomic_add(device_, 0, rmem_[0], 0, 1);
        }
        EXPECT_EQ(ugdr_dev_quiet(device_, 0), UCS_ERR_CANCELED);
    });
    std::thread waiting(
        [&] { EXPECT_EQ(ugdr_dev_signal_wait(device_, &never, 1), UCS_ERR_CANCELED); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop();
    ring_->abandon();
    completed_[1].tell(0, UCS_ERR_CANCELED);
    for (std::thread* kernel : {&quiet, &full, &waiting}) {
        kernel->join();
    }
}

TEST_F(RingTest, NoSignalsWhereKernelsDoNotSeeThem)
{
    const unsigned long long word = 1;
    device_.signals = 0;
    EXPECT_EQ(ugdr_dev_signal_wait(device_, &word, 1), UCS_ERR_UNSUPPORTED);
}

} // namespace
} // namespace gdr::sync
