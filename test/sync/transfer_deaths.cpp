// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// sync_transfer_deaths ROUNDS direct|ucp: peers are killed in each phase of a prepared transfer,
// one for each phase at a time. All that waits ends, statuses tell of it, what belonged to the dead
// can be destroyed, and nothing of it is left.
#include "killed_peers.hpp"

#include "sync/ucx-gdr/ugdr_transfer.cuh"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include <malloc.h>

using namespace synctest;

namespace {

constexpr unsigned kPartitions = 4;
constexpr size_t kLength = 64 * 1024;
constexpr int kLaunches = 20;

// What a peer does until it dies.
enum class Deed : char {
    nothing,    // makes no transfer
    matches,    // and starts nothing
    starts,     // an iteration, in which it sends nothing
    sends_some, // of an iteration's partitions, but not all
    iterates    // without end
};

// ---- what both sides have

ugdr_context_h create_context(bool ucp)
{
    ugdr_context_params_t params{};
    params.field_mask = UGDR_CONTEXT_PARAM_FIELD_IDLE;
    params.idle = UGDR_IDLE_YIELD; // there are more threads than cores
    if (ucp) {
        ucp_params_t ucp_params{};
        ucp_params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
        ucp_params.features = UCP_FEATURE_RMA | UCP_FEATURE_AMO64;
        ucp_params.mt_workers_shared = 1;
        CALL(ucp_init, &ucp_params, nullptr, &params.ucp_context);
        params.field_mask |= UGDR_CONTEXT_PARAM_FIELD_UCP_CONTEXT | UGDR_CONTEXT_PARAM_FIELD_FLAGS;
        params.flags = UGDR_CONTEXT_FLAG_NO_DIRECT;
    }
    ugdr_context_h context;
    CALL(ugdr_context_create, &params, &context);
    return context;
}

ugdr_peer_h connect(ugdr_context_h context, int fd)
{
    ugdr_peer_h peer;
    const void* blob;
    size_t length;
    CALL(ugdr_peer_create, context, nullptr, &peer);
    CALL(ugdr_peer_export, peer, &blob, &length);
    send_bytes(fd, std::string(static_cast<const char*>(blob), length));
    const std::string other = receive_bytes(fd);
    CALL(ugdr_peer_connect, peer, other.data(), other.size());
    return peer;
}

ugdr_transfer_h create_transfer(ugdr_context_h context, ugdr_peer_h peer, ugdr_transfer_side_t side,
                                void* buffer)
{
    ugdr_transfer_params_t params{};
    params.field_mask = UGDR_TRANSFER_PARAM_FIELD_PEER | UGDR_TRANSFER_PARAM_FIELD_BUFFER |
                        UGDR_TRANSFER_PARAM_FIELD_PARTITIONS;
    params.peer = peer;
    params.buffer = buffer;
    params.length = kLength;
    params.partitions = kPartitions;
    ugdr_transfer_h transfer;
    CALL(ugdr_transfer_create, context, side, &params, &transfer);
    return transfer;
}

ucs_status_t ready(ugdr_transfer_h transfer, unsigned first, unsigned end)
{
    ucs_status_t status = UCS_OK;
    for (unsigned i = first; i < end && status == UCS_OK; ++i) {
        status = ugdr_transfer_ready(transfer, i);
    }
    return status;
}

// Iterations until one fails.
ucs_status_t iterate(ugdr_transfer_h transfer, ugdr_transfer_side_t side)
{
    ucs_status_t status = UCS_OK;
    while (status == UCS_OK) {
        status = ugdr_transfer_start(transfer);
        if (status == UCS_OK && side == UGDR_TRANSFER_SEND) {
            status = ready(transfer, 0, kPartitions);
        }
        if (status == UCS_OK) {
            status = ugdr_transfer_wait(transfer);
        }
    }
    return status;
}

// ---- peers

[[noreturn]] void be_a_peer(bool ucp, int fd)
{
    send_bytes(fd, std::to_string(getpid()));
    const auto deed = static_cast<Deed>(receive_bytes(fd).at(0));
    const auto side = static_cast<ugdr_transfer_side_t>(receive_bytes(fd).at(0));
    ugdr_context_h context = create_context(ucp);
    ugdr_peer_h peer = connect(context, fd);
    if (deed != Deed::nothing) {
        static char buffer[kLength];
        ugdr_transfer_h transfer = create_transfer(context, peer, side, buffer);
        send_bytes(fd, "made");
        while (ugdr_transfer_test_match(transfer) == UCS_INPROGRESS) {
            sched_yield();
        }
        if (deed == Deed::starts || deed == Deed::sends_some) {
            CALL(ugdr_transfer_start, transfer);
        }
        if (deed == Deed::sends_some) {
            check(ready(transfer, 0, kPartitions / 2), "ugdr_transfer_ready");
        }
        send_bytes(fd, "done");
        if (deed == Deed::iterates) {
            iterate(transfer, side);
        }
    }
    for (;;) {
        pause();
    }
}

// ---- the survivor

struct Situation;

struct Side {
    const Situation* situation = nullptr;
    ugdr_context_h context = nullptr;
    ugdr_peer_h peer = nullptr;
    ugdr_transfer_h transfer = nullptr;
    pid_t process = 0;
    int fd = -1; // to it
    std::vector<char> host{};
    CUdeviceptr gpu = 0; // the buffer, or 0: host
    CUstream stream = nullptr;
    CUgraphExec executable = nullptr;
    ugdr_dev_transfer_t device{};
    std::thread kernel{}; // or another that waits
    std::atomic<bool> over{true};
    std::atomic<int> told{UCS_OK}; // to the thread
};

// What is done in a thread that has to come to its end, by what it returns.
void in_a_thread(Side& side, std::function<int()> body)
{
    side.over = false;
    side.kernel = std::thread([&side, body = std::move(body)] {
        side.told = body();
        side.over = true;
    });
}

void at_point(Side& side, uint64_t flags, const std::function<ucs_status_t(ugdr_condition_h)>& step)
{
    ugdr_condition_params_t params{};
    params.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY | UGDR_CONDITION_PARAM_FIELD_STREAM |
                        UGDR_CONDITION_PARAM_FIELD_FLAGS;
    params.category = UGDR_CONDITION_STREAM;
    params.stream = side.stream;
    params.flags = flags;
    ugdr_condition_h point;
    CALL(ugdr_condition_create, side.context, &params, &point);
    check(step(point), "a step of a transfer");
    CALL(ugdr_condition_destroy, point);
}

ugdr_transfer_side_t side_of(const Side& side);

// An iteration, enqueued.
void enqueue(Side& side, uint64_t flags)
{
    at_point(side, flags,
             [&](ugdr_condition_h point) { return ugdr_transfer_start_on(side.transfer, point); });
    if (side_of(side) == UGDR_TRANSFER_SEND) {
        at_point(side, 0, [&](ugdr_condition_h point) {
            return ugdr_transfer_ready_on(side.transfer, 0, kPartitions, point);
        });
    }
    CALL(ugdr_transfer_wait_on, side.transfer, side.stream);
}

void nothing(Side&) {}
void start(Side& side)
{
    CALL(ugdr_transfer_start, side.transfer);
}
void start_and_make_some_ready(Side& side)
{
    start(side);
    check(ready(side.transfer, 0, kPartitions / 2), "ugdr_transfer_ready");
}
void make_the_rest_ready(Side& side)
{
    ready(side.transfer, kPartitions / 2, kPartitions); // which may tell of the death
}
// Of a peer whose death nobody has noticed.
void start_all(Side& side)
{
    if (ugdr_transfer_start(side.transfer) == UCS_OK && side_of(side) == UGDR_TRANSFER_SEND) {
        ready(side.transfer, 0, kPartitions);
    }
}
void see_some_arrive(Side& side)
{
    start(side);
    for (int arrived = 0; arrived == 0; sched_yield()) {
        CALL(ugdr_transfer_arrived, side.transfer, kPartitions / 2 - 1, &arrived);
    }
}
void iterate_in_a_thread(Side& side)
{
    in_a_thread(side, [&side] { return iterate(side.transfer, side_of(side)); });
}
void wait_in_a_thread(Side& side)
{
    start(side);
    in_a_thread(side, [&side] { return ugdr_transfer_prepare(side.transfer); });
}
void enqueue_in_a_stream(Side& side)
{
    enqueue(side, 0);
}
void launch_graphs(Side& side)
{
    CUgraph graph;
    CALL(cuStreamBeginCapture, side.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    enqueue(side, UGDR_CONDITION_FLAG_WAIT);
    CALL(cuStreamEndCapture, side.stream, &graph);
    CALL(cuGraphInstantiateWithFlags, &side.executable, graph, 0ull);
    CALL(cuGraphDestroy, graph);
    for (int i = 0; i < kLaunches; ++i) {
        CALL(cuGraphLaunch, side.executable, side.stream);
    }
}
// A thread stands for a kernel's.
void wait_in_a_kernel(Side& side)
{
    CALL(ugdr_transfer_device, side.transfer, &side.device);
    start(side);
    in_a_thread(side, [&side] { return ugdr_dev_wait_arrived(side.device, kPartitions - 1); });
}
// The second call waits until the first one's partition may be written to.
void make_ready_in_a_kernel(Side& side)
{
    CALL(ugdr_transfer_device, side.transfer, &side.device);
    start(side);
    in_a_thread(side, [&side] {
        for (int i = 0; i < 4; ++i) {
            ugdr_dev_ready(side.device, 0);
        }
        return int{UCS_ERR_CANCELED}; // it is not told a status
    });
}

struct Situation {
    const char* name;
    ugdr_transfer_side_t side; // the survivor's
    Deed deed;                 // the peer's, before the survivor begins
    void (*before)(Side&);     // the death
    void (*after)(Side&);
    bool told; // of the death; else it is not waited for
    bool gpu;  // the buffer is in GPU memory, in every second round
};

constexpr auto kSend = UGDR_TRANSFER_SEND;
constexpr auto kReceive = UGDR_TRANSFER_RECV;

const Situation kSituations[] = {
    {"sender, not matched", kSend, Deed::nothing, nothing, nothing, true, false},
    {"receiver, not matched", kReceive, Deed::nothing, nothing, nothing, true, true},
    {"not matched, given up", kReceive, Deed::nothing, nothing, nothing, false, false},
    {"sender, idle", kSend, Deed::matches, nothing, start_all, true, true},
    {"receiver, idle", kReceive, Deed::matches, nothing, start_all, true, true},
    {"idle, given up", kSend, Deed::matches, nothing, nothing, false, false},
    {"sender has started", kSend, Deed::matches, start, nothing, true, false},
    {"sender prepares", kSend, Deed::matches, wait_in_a_thread, nothing, true, false},
    {"receiver has started", kReceive, Deed::matches, start, nothing, true, true},
    {"peer has started, sender not", kSend, Deed::starts, nothing, start_all, true, false},
    {"peer has started, receiver not", kReceive, Deed::starts, nothing, start_all, true, true},
    {"ready, receiver has not started", kSend, Deed::matches, start_and_make_some_ready, nothing,
     true, true},
    {"started, sender not ready", kReceive, Deed::starts, start, nothing, true, false},
    {"some partitions sent", kSend, Deed::starts, start_and_make_some_ready, make_the_rest_ready,
     true, true},
    {"some partitions received", kReceive, Deed::sends_some, see_some_arrive, nothing, true, true},
    {"sender iterates", kSend, Deed::iterates, iterate_in_a_thread, nothing, true, true},
    {"receiver iterates", kReceive, Deed::iterates, iterate_in_a_thread, nothing, true, true},
    {"sender's stream", kSend, Deed::matches, enqueue_in_a_stream, nothing, true, true},
    {"receiver's stream", kReceive, Deed::starts, enqueue_in_a_stream, nothing, true, true},
    {"sender's graph", kSend, Deed::iterates, launch_graphs, nothing, true, true},
    {"sender's graph, not received", kSend, Deed::starts, launch_graphs, nothing, true, false},
    {"receiver's graph", kReceive, Deed::sends_some, launch_graphs, nothing, true, true},
    {"receiver's kernel", kReceive, Deed::sends_some, wait_in_a_kernel, nothing, true, false},
    {"sender's kernel", kSend, Deed::matches, make_ready_in_a_kernel, nothing, true, false},
};
constexpr int kPeers = static_cast<int>(std::size(kSituations));

ugdr_transfer_side_t side_of(const Side& side)
{
    return side.situation->side;
}

// What must not grow.
struct Held {
    size_t descriptors, threads, bytes;
};
Held held()
{
    const auto entries = [](const char* directory) {
        return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(directory),
                                                 std::filesystem::directory_iterator()));
    };
    return {entries("/proc/self/fd"), entries("/proc/self/task"), mallinfo2().uordblks};
}

class Survivor {
  public:
    Survivor(bool ucp, const Peers& peers) : peers_(peers)
    {
        CALL(cuInit, 0u);
        CUcontext context;
        CALL(cuDevicePrimaryCtxRetain, &context, 0);
        CALL(cuCtxSetCurrent, context);
        context_ = create_context(ucp);
    }

    // False: something hung, or told the wrong.
    bool round(int number)
    {
        std::vector<std::unique_ptr<Side>> sides;
        peers_.order(kPeers);
        for (const Situation& situation : kSituations) {
            sides.push_back(meet(situation, number % 2 == 1));
        }
        for (const auto& side : sides) {
            side->situation->before(*side);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(number % 7));
        for (const auto& side : sides) {
            kill(side->process, SIGKILL);
        }
        for (const auto& side : sides) {
            await_end(*side);
        }
        for (const auto& side : sides) {
            side->situation->after(*side);
        }
        return std::ranges::all_of(sides, [&](const auto& side) { return ends(*side); }) &&
               std::ranges::all_of(sides, [&](const auto& side) { return part_from(*side); });
    }

    void report() const
    {
        for (const auto& [name, statuses] : outcomes_) {
            std::printf("%-35s", name.c_str());
            for (const auto& [status, count] : statuses) {
                std::printf("  %s: %d", ucs_status_string(status), count);
            }
            std::printf("\n");
        }
        std::printf("longest wait after a death: %.2f s\n", longest_);
    }

    // Not by force.
    bool destroy()
    {
        return eventually(Clock::now(),
                          [&] { return ugdr_context_destroy(context_, 0) == UCS_OK; });
    }

  private:
    std::unique_ptr<Side> meet(const Situation& situation, bool gpu)
    {
        auto side = std::make_unique<Side>();
        const int fd = peers_.meet();
        side->situation = &situation;
        side->context = context_;
        side->process = std::stoi(receive_bytes(fd));
        send_bytes(fd, std::string(1, static_cast<char>(situation.deed)));
        send_bytes(fd,
                   std::string(1, static_cast<char>(situation.side == kSend ? kReceive : kSend)));
        CALL(cuStreamCreate, &side->stream, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
        side->host.resize(kLength);
        if (gpu && situation.gpu) {
            CALL(cuMemAlloc, &side->gpu, kLength);
        }
        void* const buffer =
            side->gpu != 0 ? reinterpret_cast<void*>(side->gpu) : side->host.data();
        side->peer = connect(context_, fd);
        if (situation.deed != Deed::nothing) {
            receive_bytes(fd); // its letter is on the way
        }
        side->transfer = create_transfer(context_, side->peer, situation.side, buffer);
        if (situation.deed != Deed::nothing) {
            while (ugdr_transfer_test_match(side->transfer) == UCS_INPROGRESS) {
                sched_yield();
            }
            receive_bytes(fd);
        }
        side->fd = fd;
        return side;
    }

    // Its memory is gone when its connection is: until then an HCA may write to it.
    static void await_end(Side& side)
    {
        char none;
        while (recv(side.fd, &none, 1, 0) > 0) {
        }
        close(side.fd);
    }

    template <typename Condition>
    static bool eventually(Clock::time_point began, Condition&& holds)
    {
        while (!holds()) {
            if (Clock::now() - began > kDeadline) {
                return false;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return true;
    }

    bool ends(Side& side)
    {
        const char* const name = side.situation->name;
        const auto began = Clock::now();
        const auto failed = [&](const char* what) {
            std::printf("FAILED: %s: %s\n", name, what);
            return false;
        };
        ucs_status_t status = UCS_OK;
        const auto is_told = [&] {
            status = side.situation->deed == Deed::nothing ? ugdr_transfer_test_match(side.transfer)
                                                           : ugdr_transfer_test(side.transfer);
            return status < 0;
        };
        if (side.situation->told && !eventually(began, is_told)) {
            return failed("the status does not tell of the death");
        }
        if (!eventually(began, [&] { return cuStreamQuery(side.stream) == CUDA_SUCCESS; })) {
            return failed("the stream waits for ever");
        }
        if (!eventually(began, [&] { return side.over.load(); })) {
            return failed("a thread waits for ever");
        }
        longest_ = std::max(longest_, std::chrono::duration<double>(Clock::now() - began).count());
        if (side.kernel.joinable()) {
            side.kernel.join();
            if (side.told >= 0) {
                return failed("the thread is told nothing");
            }
        }
        if (side.situation->told && status != UCS_ERR_ENDPOINT_TIMEOUT &&
            status != UCS_ERR_CONNECTION_RESET) {
            return failed(ucs_status_string(status));
        }
        if (side.situation->told &&
            (ugdr_transfer_start(side.transfer) != status || ugdr_peer_test(side.peer) >= 0)) {
            return failed("afterwards all is as if nothing had happened");
        }
        ++outcomes_[name][status];
        return true;
    }

    // All of it can be destroyed, at once.
    static bool part_from(Side& side)
    {
        if (side.executable != nullptr) {
            CALL(cuGraphExecDestroy, side.executable);
        }
        const auto began = Clock::now();
        ucs_status_t status = UCS_OK;
        const auto is_destroyed = [&] {
            status = ugdr_transfer_destroy(side.transfer);
            return status != UCS_ERR_BUSY; // CUDA tells of a graph's end a little later
        };
        if (!eventually(began, is_destroyed) || status != UCS_OK ||
            (status = ugdr_peer_destroy(side.peer)) != UCS_OK) {
            std::printf("FAILED: %s: cannot be destroyed: %s\n", side.situation->name,
                        ucs_status_string(status));
            return false;
        }
        if (side.gpu != 0) {
            CALL(cuMemFree, side.gpu);
        }
        CALL(cuStreamDestroy, side.stream);
        return true;
    }

    const Peers peers_;
    ugdr_context_h context_;
    std::map<std::string, std::map<ucs_status_t, int>> outcomes_;
    double longest_ = 0;
};

int survive(int rounds, bool ucp, const Peers& peers)
{
    Survivor survivor(ucp, peers);
    std::vector<Held> after;
    for (int i = 0; i < rounds; ++i) {
        if (!survivor.round(i)) {
            std::_Exit(1);
        }
        after.push_back(held());
        std::printf("round %d: %zu descriptors, %zu threads, %zu bytes\n", i,
                    after.back().descriptors, after.back().threads, after.back().bytes);
    }
    survivor.report();
    // Beside what the allocator keeps for threads, connections of the dead that UCX has not missed
    // yet, and a file that is opened late. The first two rounds have used either kind of memory.
    constexpr size_t kOfAPeer = 1024, kLateFiles = 1;
    const size_t later = after.size() > 2 ? (after.size() - 2) * kPeers : 0;
    if (after.back().descriptors > after[0].descriptors + kLateFiles ||
        after.back().threads > after[0].threads ||
        (later > 0 && after.back().bytes > after[1].bytes + later * kOfAPeer)) {
        std::printf("FAILED: something of the dead is kept\n");
        std::_Exit(1);
    }
    if (!survivor.destroy()) {
        std::printf("FAILED: the context stays busy\n");
        std::_Exit(1);
    }
    std::printf("%d peers killed, all that waited went on\n", rounds * kPeers);
    return 0;
}

} // namespace

int main(int argc, char** argv)
{
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    const int rounds = argc == 3 ? std::atoi(argv[1]) : 0;
    const bool ucp = argc == 3 && std::strcmp(argv[2], "ucp") == 0;
    if (rounds < 1 || (!ucp && std::strcmp(argv[2], "direct") != 0)) {
        fail("usage: sync_transfer_deaths ROUNDS direct|ucp");
    }
    return with_killed_peers(
        kPeers, [&](const Peers& peers) { return survive(rounds, ucp, peers); },
        [&](int fd) { be_a_peer(ucp, fd); });
}
