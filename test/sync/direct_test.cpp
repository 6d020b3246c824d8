// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Lanes over queue pairs of the library's own, on two emulated HCAs and emulated GPUs; the other
// side in this process and in another.
#include "../emu/preload.hpp"
#include "../tap.hpp"
#include "../unit/verbs_fixture.hpp"

#include "direct_fixture.hpp"

#include <array>
#include <atomic>
#include <numeric>

#include <sys/prctl.h>
#include <sys/wait.h>

namespace synctest {
namespace {

constexpr size_t kLarge = 1 << 20;
constexpr uint64_t kSignal = kLarge; // its offset, behind the data

class Direct : public testing::Test {
  protected:
    void SetUp() override
    {
        ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
        ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
        ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    }

    static std::vector<char> pattern(size_t length)
    {
        std::vector<char> bytes(length);
        std::iota(bytes.begin(), bytes.end(), static_cast<char>(length));
        return bytes;
    }

    CUcontext context_ = nullptr;
};

// ---- what a transfer does, in host memory and in a GPU's

struct Way {
    const char* name;
    Carrier carrier;
    bool host;
};

class EachWay : public Direct, public testing::WithParamInterface<Way> {
  protected:
    Pair pair{1, GetParam().carrier};
};

TEST_P(EachWay, Puts)
{
    const Window window(pair, GetParam().host, kLarge);
    for (const size_t length : {size_t{0}, size_t{1}, size_t{7}, size_t{4096}, kLarge}) {
        const std::vector<char> bytes = pattern(length);
        window.near.write(0, bytes.data(), length);
        EXPECT_EQ(pair.a.carry_out(window.put(length)), UCS_OK);
        EXPECT_EQ(window.far.read(0, length), bytes) << length;
    }
    const std::vector<char> bytes = pattern(10);
    window.near.write(100, bytes.data(), 10);
    Transfer part = window.put(10);
    part.offset = 100;
    part.remote_offset = 999;
    EXPECT_EQ(pair.a.carry_out(part), UCS_OK);
    EXPECT_EQ(window.far.read(999, 10), bytes);
}

TEST_P(EachWay, Gets)
{
    const Window window(pair, GetParam().host, kLarge);
    for (const size_t length : {size_t{0}, size_t{1}, size_t{4096}, kLarge}) {
        const std::vector<char> bytes = pattern(length);
        window.far.write(0, bytes.data(), length);
        Transfer get = window.put(length);
        get.kind = Kind::get;
        EXPECT_EQ(pair.a.carry_out(get), UCS_OK);
        EXPECT_EQ(window.near.read(0, length), bytes) << length;
    }
}

TEST_P(EachWay, PutsValues)
{
    const Window window(pair, GetParam().host, 4096);
    const uint64_t value = 0x1122334455667788;
    for (uint32_t length = 1; length <= sizeof(value); ++length) {
        const uint64_t offset = 100 + 16 * length;
        const Transfer put{Kind::put_value, length,  nullptr, 0,     window.remote,
                           offset,          nullptr, 0,       value, 0};
        EXPECT_EQ(pair.a.carry_out(put), UCS_OK);
        uint64_t expected = 0;
        std::memcpy(&expected, &value, length);
        EXPECT_EQ(window.far.word(offset), expected) << length;
    }
}

TEST_P(EachWay, Signals)
{
    const Window window(pair, GetParam().host, kLarge + 64);
    const std::vector<char> bytes = pattern(1000);
    window.near.write(0, bytes.data(), bytes.size());
    Transfer put = window.put(bytes.size());
    put.signal = window.remote;
    put.signal_offset = kSignal;
    put.kind = Kind::put_signal_set;
    put.value = 40;
    EXPECT_EQ(pair.a.carry_out(put), UCS_OK);
    EXPECT_EQ(window.far.read(0, bytes.size()), bytes);
    EXPECT_EQ(window.far.word(kSignal), 40u);
    put.kind = Kind::put_signal_add;
    put.value = 2;
    EXPECT_EQ(pair.a.carry_out(put), UCS_OK);
    EXPECT_EQ(window.far.word(kSignal), 42u);
    put.length = 0;
    EXPECT_EQ(pair.a.carry_out(put), UCS_OK);
    EXPECT_EQ(window.far.word(kSignal), 44u);
}

TEST_P(EachWay, Adds)
{
    const Window window(pair, GetParam().host, 4096);
    Transfer add{Kind::add, 0, nullptr, 0, window.remote, 64, nullptr, 0, 5, 0};
    EXPECT_EQ(pair.a.carry_out(add), UCS_OK);
    EXPECT_EQ(window.far.word(64), 5u);
    add.kind = Kind::fetch_add;
    add.local = window.local;
    add.offset = 8;
    add.value = ~uint64_t{0}; // wraps around
    EXPECT_EQ(pair.a.carry_out(add), UCS_OK);
    EXPECT_EQ(window.near.word(8), 5u);
    EXPECT_EQ(window.far.word(64), 4u);
    if (GetParam().carrier == Carrier::ucp) {
        return;
    }
    // One that the HCA would refuse, and end the connection with, ends alone.
    add.remote_offset = 65;
    EXPECT_EQ(pair.a.carry_out(add), UCS_ERR_INVALID_PARAM);
    add.remote_offset = 64;
    EXPECT_EQ(pair.a.carry_out(add), UCS_OK);
}

INSTANTIATE_TEST_SUITE_P(Direct, EachWay,
                         testing::Values(Way{"Host", Carrier::queue_pairs, true},
                                         Way{"Gpu", Carrier::queue_pairs, false},
                                         Way{"HostByUcp", Carrier::ucp, true}),
                         [](const auto& info) { return info.param.name; });

// ---- many of them

TEST_F(Direct, TicketsRetireInOrder)
{
    constexpr uint64_t kTransfers = 2000;
    Pair pair;
    const Window window(pair, true, 4096);
    for (uint64_t i = 0; i < kTransfers; ++i) {
        Transfer transfer = window.put(8, i);
        if (i % 3 == 1) {
            transfer.kind = Kind::get;
        } else if (i % 3 == 2) {
            transfer = {Kind::add, 0, nullptr, 0, window.remote, i % 5 == 0 ? 65u : 64u,
                        nullptr,   0, 1,       i};
        }
        pair.a.post(transfer);
    }
    ASSERT_TRUE(pair.a.finish(kTransfers - pair.a.tickets.size()));
    for (uint64_t i = 0; i < kTransfers; ++i) {
        EXPECT_EQ(pair.a.tickets[i].first, i);
        EXPECT_EQ(pair.a.tickets[i].second,
                  i % 3 == 2 && i % 5 == 0 ? UCS_ERR_INVALID_PARAM : UCS_OK);
    }
}

TEST_F(Direct, TicketsRetireInOrderByUcp)
{
    constexpr uint64_t kTransfers = 500;
    Pair pair(1, Carrier::ucp);
    const Window window(pair, true, 4096);
    for (uint64_t i = 0; i < kTransfers; ++i) {
        Transfer transfer = window.put(8, i);
        if (i % 4 == 1) {
            transfer.kind = Kind::get;
        } else if (i % 4 > 1) {
            transfer = {Kind::put_value, 8, nullptr, 0, window.remote, 64, nullptr, 0, i, i};
        }
        pair.a.post(transfer);
    }
    ASSERT_TRUE(pair.a.finish(kTransfers - pair.a.tickets.size()));
    for (uint64_t i = 0; i < kTransfers; ++i) {
        EXPECT_EQ(pair.a.tickets[i], std::pair(i, UCS_OK));
    }
    EXPECT_EQ(window.far.word(64), kTransfers - 1);
}

TEST_F(Direct, NothingHappensWithoutRoom)
{
    Pair pair;
    const Window window(pair, true, 4096);
    Transfer put = window.put(8); // of two work requests
    put.kind = Kind::put_signal_set;
    put.signal = window.remote;
    size_t posted = 0;
    while (pair.a.lane().post(put)) {
        ASSERT_LT(++posted, 100'000u);
    }
    EXPECT_FALSE(pair.a.lane().post(put));
    ASSERT_TRUE(pair.a.finish(posted));
    EXPECT_EQ(pair.a.tickets.size(), posted);
    for (const auto& [ticket, status] : pair.a.tickets) {
        EXPECT_EQ(status, UCS_OK);
    }
    EXPECT_EQ(pair.a.carry_out(put), UCS_OK);
}

// A thread looks at the signals while they arrive.
void watch_signals(Pair& pair, uint64_t transfers)
{
    constexpr size_t kSlots = 16, kSlot = 64;
    const Window window(pair, true, kSlots * kSlot + 64);
    std::atomic<uint64_t> wrong{0};
    std::atomic<uint64_t> seen{0};
    const auto word = [&](size_t offset) {
        return std::atomic_ref(*reinterpret_cast<uint64_t*>(window.far.host() + offset));
    };
    std::thread reader([&] {
        for (uint64_t signal = 0; signal < transfers;) {
            signal = word(kSlots * kSlot).load(std::memory_order_acquire);
            // The slot of a signal has its number, or that of a later round.
            const size_t slot = signal % kSlots * kSlot;
            if (signal > 0 && (word(slot).load(std::memory_order_relaxed) < signal ||
                               word(slot + kSlot - 8).load(std::memory_order_relaxed) < signal)) {
                ++wrong;
            }
            seen.store(signal, std::memory_order_relaxed);
        }
    });
    for (uint64_t i = 1; i <= transfers; ++i) {
        // What is under way still reads its own slot: at most so many.
        if (i % (kSlots / 2) == 0) {
            pair.a.lane().submit();
            eventually([&] {
                pair.a.lane().poll(pair.a);
                return pair.a.tickets.size() == i - 1;
            });
        }
        const size_t slot = i % kSlots * kSlot;
        std::memcpy(window.near.host() + slot, &i, sizeof(i));
        std::memcpy(window.near.host() + slot + kSlot - sizeof(i), &i, sizeof(i));
        pair.a.post({Kind::put_signal_set, kSlot, window.local, slot, window.remote, slot,
                     window.remote, kSlots * kSlot, i, i});
    }
    EXPECT_TRUE(pair.a.finish(transfers - pair.a.tickets.size()));
    reader.join();
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(seen, transfers);
}

TEST_F(Direct, NoSignalOvertakesItsData)
{
    Pair pair;
    watch_signals(pair, 100'000);
}

// Data, flush, signal, flush; UCP's order in one process is better than it promises.
TEST_F(Direct, AFlushIsBetweenDataAndSignalByUcp)
{
    Pair pair(1, Carrier::ucp);
    const Window window(pair, true, 4096);
    const auto operations = [&](std::initializer_list<Kind> kinds) {
        const uint64_t before = pair.a.application().posted();
        for (const Kind kind : kinds) {
            Transfer transfer = window.put(8);
            transfer.kind = kind;
            transfer.signal = window.remote;
            transfer.signal_offset = 64;
            EXPECT_TRUE(pair.a.lane().post(transfer));
        }
        EXPECT_TRUE(pair.a.finish(kinds.size()));
        return pair.a.application().posted() - before;
    };
    EXPECT_EQ(operations({Kind::put}), 2u);
    EXPECT_EQ(operations({Kind::put, Kind::get, Kind::put}), 4u);
    EXPECT_EQ(operations({Kind::put_signal_set}), 4u);
    EXPECT_EQ(operations({Kind::put, Kind::put_value}), 4u);
    EXPECT_EQ(operations({Kind::put_value, Kind::put}), 3u);
    EXPECT_EQ(operations({Kind::put, Kind::put_signal_set, Kind::put}), 6u);
}

TEST_F(Direct, NoSignalOvertakesItsDataByUcp)
{
    Pair pair(1, Carrier::ucp);
    watch_signals(pair, 2'000);
}

TEST_F(Direct, ChannelsAreSeparate)
{
    constexpr unsigned kChannels = 4;
    constexpr uint64_t kTransfers = 1000;
    Pair pair(kChannels);
    const Window window(pair, true, 4096);
    EXPECT_EQ(pair.a.peer->lanes().of(kChannels), nullptr);
    std::array<size_t, kChannels> under_way{};
    for (uint64_t i = 0; i < kTransfers; ++i) {
        const unsigned channel = i % kChannels;
        pair.a.post({Kind::add, 0, nullptr, 0, window.remote, 8 * channel, nullptr, 0, i, i},
                    channel);
        ++under_way[channel];
    }
    for (unsigned channel = 0; channel < kChannels; ++channel) {
        pair.a.lane(channel).submit();
    }
    EXPECT_TRUE(eventually([&] {
        for (unsigned channel = 0; channel < kChannels; ++channel) {
            pair.a.lane(channel).poll(pair.a);
        }
        return pair.a.tickets.size() == kTransfers;
    }));
    for (unsigned channel = 0; channel < kChannels; ++channel) {
        uint64_t sum = 0;
        for (uint64_t i = channel; i < kTransfers; i += kChannels) {
            sum += i;
        }
        EXPECT_EQ(window.far.word(8 * channel), sum);
    }
}

TEST_F(Direct, BothHcasAreUsed)
{
    Pair pair(2);
    ASSERT_EQ(pair.a.network.hcas().size(), 2u);
    const Window window(pair, false, 4096);
    ASSERT_EQ(window.local->keys.size(), 2u);
    for (unsigned channel = 0; channel < 2; ++channel) {
        EXPECT_EQ(pair.a.carry_out({Kind::put_value, 8, nullptr, 0, window.remote, 8 * channel,
                                    nullptr, 0, channel + 1, 0},
                                   channel),
                  UCS_OK);
        EXPECT_EQ(window.far.word(8 * channel), channel + 1);
    }
}

// ---- what ends, or is refused

TEST_F(Direct, MemoryThatIsInUseStays)
{
    Pair pair;
    const Window window(pair, true, 4096);
    Network& network = pair.a.network;
    EXPECT_EQ(refusal_of([&] { network.unmap(window.near_handle); }), UCS_ERR_BUSY);
    EXPECT_EQ(refusal_of([&] { network.release(window.imported); }), UCS_ERR_BUSY);
    EXPECT_EQ(refusal_of([&] { network.destroy(pair.a.peer); }), UCS_ERR_BUSY);
    const uint32_t number = number_of(window.near_handle->id), remote = window.imported->id;
    network.memories.give_back(number);
    network.remote_memories.give_back(remote);
    network.unmap(window.near_handle);
    network.release(window.imported);
    EXPECT_EQ(network.memories.use(number), nullptr);
    EXPECT_EQ(network.remote_memories.use(remote), nullptr);
    network.destroy(pair.a.peer);
}

// The connection ends with it, and all that comes later.
TEST_F(Direct, MemoryThatThePeerTookBack)
{
    Pair pair(2);
    const Window window(pair, true, 4096);
    pair.b.network.unmap(window.far_handle);
    for (uint64_t i = 0; i < 10; ++i) {
        pair.a.post(window.put(8, i));
    }
    ASSERT_TRUE(pair.a.finish(10));
    for (const auto& [ticket, status] : pair.a.tickets) {
        EXPECT_EQ(status, UCS_ERR_CONNECTION_RESET) << ticket;
    }
    EXPECT_EQ(pair.a.peer->status(), UCS_ERR_CONNECTION_RESET);
    EXPECT_EQ(pair.a.carry_out(window.put(8)), UCS_ERR_CONNECTION_RESET);
}

TEST_F(Direct, WhatHasNotBeenSubmittedEndsToo)
{
    Pair pair;
    const Window window(pair, true, 4096);
    pair.b.network.unmap(window.far_handle);
    pair.a.post(window.put(8, 0));
    pair.a.lane().submit();
    pair.a.post(window.put(8, 1));
    EXPECT_TRUE(eventually([&] {
        pair.a.lane().poll(pair.a);
        return pair.a.tickets.size() == 2;
    }));
    EXPECT_EQ(pair.a.carry_out(window.put(8)), UCS_ERR_CONNECTION_RESET);
    EXPECT_EQ(pair.a.carry_out(window.put(8)), UCS_ERR_CONNECTION_RESET);
}

TEST_F(Direct, OtherBytesAreNoBlobs)
{
    Pair pair;
    Side other;
    const Bytes bytes(true, 4096);
    const Blob memory = pair.b.map(bytes)->blob;
    const Blob peer = pair.b.peer->blob();
    const auto connects = [&](const Blob& blob) {
        return refusal_of([&] { Side().connect(blob); });
    };
    const auto imports = [&](const Blob& blob) { return refusal_of([&] { pair.a.import(blob); }); };
    EXPECT_EQ(imports(memory), UCS_OK);
    EXPECT_EQ(imports({}), UCS_ERR_INVALID_PARAM);
    for (size_t length = 0; length < memory.size(); ++length) {
        EXPECT_EQ(imports(Blob(memory.begin(), memory.begin() + static_cast<long>(length))),
                  UCS_ERR_INVALID_PARAM)
            << length;
    }
    for (size_t length = 0; length < peer.size(); length += 7) {
        EXPECT_EQ(connects(Blob(peer.begin(), peer.begin() + static_cast<long>(length))),
                  UCS_ERR_INVALID_PARAM)
            << length;
    }
    EXPECT_EQ(imports(peer), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(connects(memory), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(connects(Blob(200, 'x')), UCS_ERR_INVALID_PARAM);
    Blob newer = peer;
    ++newer[8]; // the version
    EXPECT_EQ(connects(newer), UCS_ERR_UNSUPPORTED);
    EXPECT_EQ(imports(other.map(bytes)->blob), UCS_ERR_INVALID_PARAM) << "of another context";
    EXPECT_EQ(refusal_of([&] { other.import(memory); }), UCS_ERR_NOT_CONNECTED);
    EXPECT_EQ(refusal_of([&] { pair.a.connect(peer); }), UCS_ERR_INVALID_PARAM) << "again";
    EXPECT_EQ(refusal_of([&] { Side(2).connect(peer); }), UCS_ERR_INVALID_PARAM) << "channels";
}

// Nothing that a blob says makes the library read behind it or end the program.
TEST_F(Direct, ChangedBlobs)
{
    Pair pair;
    const Bytes bytes(true, 4096);
    for (const bool memory : {false, true}) {
        const Blob blob = memory ? pair.b.map(bytes)->blob : pair.b.peer->blob();
        for (size_t i = 0; i < blob.size(); ++i) {
            Blob changed = blob;
            changed[i] ^= 0xff;
            try {
                memory ? static_cast<void>(pair.a.import(changed)) : Side().connect(changed);
            } catch (const std::exception&) {
            }
        }
    }
}

TEST_F(Direct, NeitherHcasNorUcp)
{
    const auto network = Side::cut_off();
    ugdr_peer* without = network->add_peer(1);
    Side with;
    const Blob blob = with.peer->blob();
    EXPECT_EQ(refusal_of([&] { with.connect(without->blob()); }), UCS_ERR_UNREACHABLE);
    EXPECT_EQ(refusal_of([&] { network->connect(*without, blob.data(), blob.size()); }),
              UCS_ERR_UNREACHABLE);
    EXPECT_EQ(with.peer->status(), UCS_ERR_NOT_CONNECTED);
}

TEST_F(Direct, MemoryThatNobodyCanRegister)
{
    Side side;
    CUdeviceptr managed = 0;
    ASSERT_EQ(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    EXPECT_THROW(side.network.map(reinterpret_cast<void*>(managed), 4096), std::runtime_error);
    EXPECT_EQ(refusal_of([&] { side.network.map(nullptr, 1); }), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(refusal_of([&] { side.network.map(&side, SIZE_MAX); }), UCS_ERR_INVALID_PARAM);
}

// ---- another process

struct Pipe {
    Pipe() { EXPECT_EQ(pipe(ends), 0); }
    ~Pipe()
    {
        close(ends[0]);
        close(ends[1]);
    }
    int ends[2];
};

void send(int to, const Blob& blob)
{
    const size_t length = blob.size();
    ASSERT_EQ(write(to, &length, sizeof(length)), static_cast<ssize_t>(sizeof(length)));
    ASSERT_EQ(write(to, blob.data(), length), static_cast<ssize_t>(length));
}

Blob receive(int from)
{
    size_t length = 0;
    if (read(from, &length, sizeof(length)) != static_cast<ssize_t>(sizeof(length))) {
        return {};
    }
    Blob blob(length);
    EXPECT_EQ(read(from, blob.data(), length), static_cast<ssize_t>(length));
    return blob;
}

constexpr size_t kOfOther = 4096;
constexpr const char* kPipes = "DIRECT_TEST_PIPES"; // and whether UCP carries

// Says what it has, and answers each signal with the next value, in the first side's memory.
TEST_F(Direct, DISABLED_OtherProcess)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int from = -1, to = -1, ucp = 0;
    ASSERT_EQ(std::sscanf(std::getenv(kPipes), "%d,%d,%d", &from, &to, &ucp), 3);
    Side side(1, ucp != 0 ? Carrier::ucp : Carrier::queue_pairs);
    const Bytes bytes(true, kOfOther);
    ugdr_mem* mapped = side.map(bytes);
    send(to, side.peer->blob());
    send(to, mapped->blob);
    side.connect(receive(from));
    RemoteMemory* remote = side.memory(side.import(receive(from)));
    Memory* local = side.memory(mapped);
    send(to, {}); // connected
    std::atomic_ref signal(*reinterpret_cast<uint64_t*>(bytes.host()));
    for (uint64_t expected = 1;; ++expected) {
        while (signal.load(std::memory_order_acquire) < expected) {
            std::this_thread::yield();
        }
        EXPECT_EQ(side.carry_out({Kind::put_signal_set, 64, local, 0, remote, 64, remote, 0,
                                  expected, expected}),
                  UCS_OK);
    }
}

class Other {
  public:
    explicit Other(Side& side, Carrier carrier = Carrier::queue_pairs)
    {
        const std::string pipes = std::to_string(down_.ends[0]) + "," +
                                  std::to_string(up_.ends[1]) + "," +
                                  (carrier == Carrier::ucp ? "1" : "0");
        child_ = fork();
        if (child_ == 0) {
            setenv(kPipes, pipes.c_str(), 1);
            dup2(STDERR_FILENO, STDOUT_FILENO);
            execl("/proc/self/exe", "direct_test", "--gtest_filter=Direct.DISABLED_OtherProcess",
                  "--gtest_also_run_disabled_tests", nullptr);
            _exit(127);
        }
        side.connect(receive(up_.ends[0]));
        remote = side.memory(side.import(receive(up_.ends[0])));
        mapped_ = side.map(bytes);
        local = side.memory(mapped_);
        send(down_.ends[1], side.peer->blob());
        send(down_.ends[1], mapped_->blob);
        receive(up_.ends[0]);
    }
    ~Other() { kill(); }

    void kill()
    {
        if (child_ > 0) {
            ::kill(child_, SIGKILL);
            waitpid(std::exchange(child_, 0), nullptr, 0);
        }
    }

    const Bytes bytes{true, kOfOther};
    Memory* local = nullptr;
    RemoteMemory* remote = nullptr;

  private:
    Pipe down_, up_;
    pid_t child_ = 0;
    ugdr_mem* mapped_ = nullptr;
};

void exchange_signals(Carrier carrier)
{
    Side side(1, carrier);
    Other other(side, carrier);
    std::atomic_ref answer(*reinterpret_cast<uint64_t*>(other.bytes.host()));
    for (uint64_t i = 1; i <= 100; ++i) {
        EXPECT_EQ(side.carry_out({Kind::put_signal_set, 128, other.local, 512, other.remote, 512,
                                  other.remote, 0, i, i}),
                  UCS_OK);
        ASSERT_TRUE(eventually([&] { return answer.load(std::memory_order_acquire) == i; }));
    }
}

TEST_F(Direct, AnotherProcess)
{
    exchange_signals(Carrier::queue_pairs);
}

TEST_F(Direct, AnotherProcessByUcp)
{
    exchange_signals(Carrier::ucp);
}

// Each ticket retires, in order. Returns the last one's status.
ucs_status_t kill_peer(Carrier carrier, uint64_t transfers)
{
    Side side(1, carrier);
    Other other(side, carrier);
    uint64_t posted = 0;
    const auto put = [&] {
        side.post({Kind::put_signal_set, 1024, other.local, 512, other.remote, 512, other.remote,
                   2048, 0, posted++});
    };
    while (posted < transfers) {
        put();
    }
    other.kill();
    while (posted < 2 * transfers) {
        put();
    }
    EXPECT_TRUE(side.finish(posted - side.tickets.size()));
    for (uint64_t i = 0; i < side.tickets.size(); ++i) {
        EXPECT_EQ(side.tickets[i].first, i);
    }
    EXPECT_EQ(side.tickets.front().second, UCS_OK);
    EXPECT_EQ(side.peer->status(), side.tickets.back().second);
    return side.peer->status();
}

TEST_F(Direct, APeerIsKilled)
{
    EXPECT_EQ(kill_peer(Carrier::queue_pairs, 1000), UCS_ERR_ENDPOINT_TIMEOUT);
}

TEST_F(Direct, APeerIsKilledByUcp)
{
    EXPECT_NE(kill_peer(Carrier::ucp, 200), UCS_OK); // by its transport
}

// ---- numbers of memories

TEST(UseTable, APlaceIsUsedAgainWithAnotherNumber)
{
    UseTable<int> table;
    const uint32_t first = table.add(1);
    EXPECT_EQ(*table.use(first), 1);
    EXPECT_FALSE(table.end(first));
    table.give_back(first);
    EXPECT_TRUE(table.end(first));
    EXPECT_EQ(table.use(0), nullptr) << "an empty place";
    const uint32_t second = table.add(2);
    EXPECT_NE(first, second);
    EXPECT_EQ(table.use(first), nullptr);
    EXPECT_EQ(table.use(0), nullptr);
    EXPECT_EQ(table.use(~0u), nullptr);
    EXPECT_EQ(*table.use(second), 2);
}

// It is not 7 any more when nobody may look at it.
struct Seven {
    Seven() = default;
    Seven(const Seven&) {}
    ~Seven() { value = 0; }
    volatile int value = 7;
};

TEST(UseTable, ThreadsThatUseWhatGoes)
{
    constexpr int kRounds = 2000;
    UseTable<Seven> table;
    std::atomic<uint32_t> number{0};
    std::atomic<bool> over{false};
    std::vector<std::thread> users;
    for (int i = 0; i < 3; ++i) {
        users.emplace_back([&] {
            while (!over) {
                const uint32_t seen = number;
                if (const Seven* item = table.use(seen)) {
                    EXPECT_EQ(item->value, 7);
                    table.give_back(seen);
                }
            }
        });
    }
    for (int i = 0; i < kRounds; ++i) {
        number = table.add({});
        while (!table.end(number)) {
        }
    }
    over = true;
    for (std::thread& user : users) {
        user.join();
    }
}

// One after the other in any order, also where two have the same place among a thread's holds.
TEST(Holds, EndWithTheLastOfEach)
{
    UseTable<int> table;
    Holds<int> holds(table);
    std::vector<uint32_t> numbers;
    for (int i = 0; i < 17; ++i) {
        numbers.push_back(table.add(i));
    }
    const uint32_t first = numbers.front();
    const auto same_place = std::find_if(numbers.begin() + 1, numbers.end(), [&](uint32_t number) {
        return number % 16 == first % 16;
    });
    ASSERT_NE(same_place, numbers.end());
    const uint32_t second = *same_place;
    const auto value = static_cast<int>(same_place - numbers.begin());

    EXPECT_EQ(holds.use(first ^ (1u << 20)), nullptr) << "there is no such number";
    for (const bool first_ends_first : {true, false}) {
        for (int i = 0; i < 3; ++i) {
            EXPECT_EQ(*holds.use(first), 0);
            EXPECT_EQ(*holds.use(second), value);
        }
        for (const uint32_t number :
             {first_ends_first ? first : second, first_ends_first ? second : first}) {
            for (int i = 0; i < 3; ++i) {
                EXPECT_FALSE(table.end(number));
                holds.give_back(number);
            }
        }
        for (int i = 0; i < 2; ++i) {
            EXPECT_EQ(*holds.use(second), value) << "now the place is free for it";
        }
        for (int i = 0; i < 2; ++i) {
            EXPECT_FALSE(table.end(second));
            holds.give_back(second);
        }
    }
    EXPECT_TRUE(table.end(first));
    EXPECT_TRUE(table.end(second));
    EXPECT_EQ(holds.use(first), nullptr);
}

TEST(UseTable, IsFull)
{
    UseTable<int> table;
    for (unsigned i = 0; i < 1u << UseTable<int>::kPlaceBits; ++i) {
        table.add(0);
    }
    EXPECT_THROW(table.add(0), std::bad_alloc);
}

// ---- HCAs that lack something

constexpr const char* kExpected = "DIRECT_TEST_EXPECTED";

// The exit status of a test in a process of its own, with a variable.
int run_alone(const char* test, const char* variable, const char* value, const char* expected = "")
{
    const pid_t child = fork();
    if (child == 0) {
        setenv(variable, value, 1);
        setenv(kExpected, expected, 1);
        setenv("SOFTHCA_FABRIC", ("direct-" + std::to_string(getpid())).c_str(), 1);
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execl("/proc/self/exe", "direct_test",
              (std::string("--gtest_filter=Direct.DISABLED_") + test).c_str(),
              "--gtest_also_run_disabled_tests", nullptr);
        _exit(127);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

// As many as are expected.
TEST_F(Direct, DISABLED_HcasThatAreUsed)
{
    Side side;
    EXPECT_EQ(std::to_string(side.network.hcas().size()), std::getenv(kExpected))
        << side.network.hcas().obstacle();
}

TEST_F(Direct, HcasThatWouldNotDoAreLeftOut)
{
    ONLY_ON_SOFTHCA("profiles");
    const auto run = [](const char* variable, const char* value, const char* expected) {
        EXPECT_EQ(run_alone("HcasThatAreUsed", variable, value, expected), 0) << value;
    };
    run("SOFTHCA_PROFILE", "relaxed_only;relaxed_only", "0");
    run("SOFTHCA_PROFILE", "relaxed_only;softhca", "1");
    run("SOFTHCA_GPU_DIRECT", "none", "0");
    run("SOFTHCA_PROFILE", "nvswitch_port;softhca", "1");
    run("SOFTHCA_PROFILE", "softhca;softhca", "2");
}

TEST_F(Direct, DISABLED_Adds)
{
    Pair pair;
    const Window window(pair, true, 4096);
    EXPECT_EQ(pair.a.carry_out({Kind::add, 0, nullptr, 0, window.remote, 0, nullptr, 0, 1, 0}),
              UCS_ERR_UNSUPPORTED);
    EXPECT_EQ(pair.a.carry_out(window.put(8)), UCS_OK);
}

TEST_F(Direct, AnHcaWithoutAtomicsDoesTheRest)
{
    ONLY_ON_SOFTHCA("profiles");
    EXPECT_EQ(run_alone("Adds", "SOFTHCA_PROFILE", "e810;e810"), 0);
}

} // namespace
} // namespace synctest

int main(int argc, char** argv)
{
    find_softcuda();
    setenv("SOFTHCA_DEVICES", "2", 0);
    setenv("UCX_TLS", "self,sm,tcp", 0);
    run_on_emulated_hca(argv);
    return run_tests(argc, argv);
}
