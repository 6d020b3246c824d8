// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucp_death: a peer is killed, and the survivor must learn of it within seconds through its error
// handler, with every operation completed and nothing left hanging; the next run on the same
// fabric must not be disturbed by what the dead process left behind. Or the wire between the two is
// cut instead.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cuda.hpp"
#include "support/endpoints.hpp"
#include "support/failure.hpp"
#include "support/in_flight.hpp"
#include "support/messages.hpp"
#include "support/ranks.hpp"
#include "support/remote_memory.hpp"
#include "support/report.hpp"

namespace ucptest {
namespace {

constexpr auto kNotice = std::chrono::seconds(10); // until the error handler must have been called
constexpr uint64_t kFeatures = UCP_FEATURE_TAG | UCP_FEATURE_RMA;
constexpr size_t kLarge = 8 << 20;
constexpr size_t kSmall = 64;

// Shell commands that cut and mend the wire; NULL: the peer is killed.
struct Wire {
    const char* cut = nullptr;
    const char* mend = nullptr;
};

void command(const char* text)
{
    require(std::system(text) == 0, text);
}

// What a pair of ranks has when the drama begins. Rank 0 survives, rank 1 is lost to it.
struct Stage {
    Ranks& ranks;
    Worker& worker;
    Endpoints& endpoints;
    InFlight& operations;
    MemoryKind kind;
    const char* cut;
    std::vector<std::unique_ptr<Messages>> buffers;

    ucp_ep_h peer() const { return endpoints.to(1 - ranks.rank()); }
    bool survivor() const { return ranks.rank() == 0; }
    Messages& buffer(size_t size, size_t count)
    {
        buffers.push_back(std::make_unique<Messages>(kind, size, count, false));
        buffers.back()->fill(1);
        return *buffers.back();
    }
    void send(Messages& messages, ucp_tag_t tag)
    {
        for (size_t index = 0; index < messages.count(); ++index) {
            operations.tag_send(peer(), messages.view(index), tag + index);
        }
    }
    void receive(Messages& messages, ucp_tag_t tag)
    {
        for (size_t index = 0; index < messages.count(); ++index) {
            operations.tag_receive(messages.view(index), tag + index, messages.size());
        }
    }
    // Until these are there, and none is received.
    void wait_for_arrival(const Messages& messages, ucp_tag_t tag)
    {
        for (size_t index = 0; index < messages.count(); ++index) {
            ucp_tag_recv_info_t info;
            const auto is_there = [&] {
                return ucp_tag_probe_nb(worker.handle(), tag + index, ~ucp_tag_t{0}, 0, &info) !=
                       nullptr;
            };
            worker.wait(is_there, "arrival");
        }
    }
    [[noreturn]] void wait_for_death()
    {
        for (;;) {
            ucp_worker_progress(worker.handle());
        }
    }
    [[noreturn]] void sleep_until_death()
    {
        for (;;) {
            pause(); // a process that makes no progress, as one in a long computation
        }
    }
    void lose_peer()
    {
        if (cut == nullptr) {
            kill(ranks.process(1), SIGKILL);
        } else {
            command(cut);
        }
    }
};

// Connected, nothing in flight.
void idle(Stage& stage)
{
    if (!stage.survivor()) {
        stage.wait_for_death();
    }
    stage.lose_peer();
}

// The peer sends without end.
void peer_sends(Stage& stage)
{
    Messages& messages = stage.buffer(kLarge, 4);
    if (!stage.survivor()) {
        for (;;) {
            stage.send(messages, 1);
            stage.operations.wait("sends");
        }
    }
    stage.receive(messages, 1);
    stage.operations.wait("the first messages");
    stage.receive(messages, 1);
    stage.worker.wait_for([] { return false; }, std::chrono::milliseconds(3));
    stage.lose_peer();
}

// The survivor sends large messages by rendezvous that the peer is receiving.
void peer_receives(Stage& stage)
{
    Messages& messages = stage.buffer(kLarge, 4);
    if (!stage.survivor()) {
        for (;;) {
            stage.receive(messages, 1);
            stage.operations.wait("receives");
        }
    }
    stage.send(messages, 1);
    stage.operations.wait("the first messages");
    stage.send(messages, 1);
    stage.worker.wait_for([] { return false; }, std::chrono::milliseconds(3));
    stage.lose_peer();
    stage.send(messages, 1);
}

// The survivor's rendezvous messages are never matched. They have arrived: while its UCP still
// connects for the first of them, nobody asks whether the peer is alive
// (docs/developers/defects.md).
void peer_ignores_rendezvous(Stage& stage)
{
    Messages& messages = stage.buffer(kLarge, 4);
    if (stage.survivor()) {
        stage.send(messages, 1);
    } else {
        stage.wait_for_arrival(messages, 1);
    }
    stage.ranks.barrier(stage.worker, "the messages' arrival");
    if (!stage.survivor()) {
        stage.wait_for_death();
    }
    stage.lose_peer();
}

// More small messages than the peer, which makes no progress, has room for.
void peer_is_flooded(Stage& stage)
{
    if (!stage.survivor()) {
        stage.sleep_until_death();
    }
    Messages& messages = stage.buffer(kSmall, 10000);
    stage.send(messages, 1);
    stage.worker.wait_for([] { return false; }, std::chrono::milliseconds(100));
    stage.lose_peer();
}

void one_sided(Stage& stage, bool put)
{
    Messages& messages = stage.buffer(kLarge, 4);
    ExposedMemory exposed(stage.worker, messages.memory());
    const auto packed =
        stage.ranks.exchange([&](int) { return exposed.packed(); }, stage.worker, "remote memory");
    if (!stage.survivor()) {
        stage.wait_for_death();
    }
    RemoteMemory remote(stage.peer(), packed.at(1));
    const auto start_all = [&] {
        for (size_t index = 0; index < messages.count(); ++index) {
            if (put) {
                stage.operations.put(stage.peer(), messages.view(index), remote.address(0),
                                     remote.rkey());
            } else {
                stage.operations.get(stage.peer(), messages.view(index), remote.address(0),
                                     remote.rkey());
            }
        }
        stage.operations.flush(stage.peer());
    };
    start_all();
    stage.operations.wait("the first operations");
    start_all();
    stage.lose_peer();
    start_all();
}

void peer_is_put_to(Stage& stage)
{
    one_sided(stage, true);
}

void peer_is_got_from(Stage& stage)
{
    one_sided(stage, false);
}

struct Scenario {
    const char* name;
    void (*play)(Stage&);
};

constexpr Scenario kScenarios[] = {{"idle", idle},
                                   {"peer sends", peer_sends},
                                   {"peer receives rendezvous", peer_receives},
                                   {"peer ignores rendezvous", peer_ignores_rendezvous},
                                   {"peer is flooded", peer_is_flooded},
                                   {"peer is put to", peer_is_put_to},
                                   {"peer is got from", peer_is_got_from}};

// After the peer's death: what the survivor must see.
void aftermath(Stage& stage)
{
    const auto killed = Clock::now();
    if (!stage.worker.wait_for([&] { return stage.endpoints.error(1) != UCS_OK; }, kNotice)) {
        throw Failure(format("the error handler was not called, %zu operations outstanding",
                             stage.operations.outstanding()));
    }
    const auto took = std::chrono::duration<double>(Clock::now() - killed).count();
    std::printf("  %s after %.2f s\n", ucs_status_string(stage.endpoints.error(1)), took);
    InFlight closing(stage.worker);
    closing.close(stage.peer(), true);
    require(closing.wait_for(kNotice), "closing the endpoint does not complete");
    // Receives that no message was matched to belong to no endpoint: they wait for other peers.
    stage.operations.cancel();
    require(stage.operations.wait_for(kNotice),
            format("%zu operations never complete", stage.operations.outstanding()));
}

// A pair from the start to the end, in processes of its own.
int play(const Scenario& scenario, MemoryKind kind, const char* cut)
{
    Ranks ranks(2);
    Report report(format("rank %d", ranks.rank()));
    if (kind != MemoryKind::kHost && !cuda::available(ranks.rank())) {
        throw Failure("no CUDA driver");
    }
    report.begin(format("%s, %s", scenario.name, name(kind)), 3 * deadline_s());
    Worker worker(kFeatures, false);
    Endpoints endpoints(ranks, worker, Endpoints::Connect::kWorkerAddress, true);
    InFlight operations(worker);
    Stage stage{ranks, worker, endpoints, operations, kind, cut, {}};
    Messages& greeting = stage.buffer(kSmall, 1);
    Messages& answer = stage.buffer(kSmall, 1);
    stage.receive(answer, 1000000);
    stage.send(greeting, 1000000);
    operations.wait("greetings");
    ranks.barrier(worker, "greetings");
    scenario.play(stage);
    aftermath(stage);
    report.end();
    return EXIT_SUCCESS;
}

// The next run on the same fabric.
int talk(MemoryKind kind)
{
    Ranks ranks(2);
    Report report(format("rank %d", ranks.rank()));
    if (kind != MemoryKind::kHost && !cuda::available(ranks.rank())) {
        throw Failure("no CUDA driver");
    }
    report.begin(format("a new pair, %s", name(kind)), 3 * deadline_s());
    Worker worker(kFeatures, false);
    Endpoints endpoints(ranks, worker, Endpoints::Connect::kWorkerAddress, true);
    InFlight operations(worker);
    Messages out(kind, kLarge, 2, false);
    Messages in(kind, kLarge, 2, false);
    out.fill(seed_of({7, static_cast<uint64_t>(ranks.rank())}));
    in.fill(0);
    const int peer = 1 - ranks.rank();
    for (size_t index = 0; index < out.count(); ++index) {
        operations.tag_receive(in.view(index), index, in.size());
        operations.tag_send(endpoints.to(peer), out.view(index), index);
    }
    operations.wait("messages");
    if (const auto wrong = in.difference(seed_of({7, static_cast<uint64_t>(peer)}))) {
        report.failed(*wrong);
    }
    endpoints.close();
    report.end();
    return ranks.join() + static_cast<int>(report.failures());
}

// Runs in a process of its own, so that this one never initialises UCX or CUDA.
template <typename F>
bool in_a_process(F&& body)
{
    const pid_t process = fork();
    if (process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        std::exit(body());
    }
    int status = 0;
    return waitpid(process, &status, 0) == process && status == 0;
}

int run(MemoryKind kind, const Wire& wire)
{
    // How often UCX asks whether an idle peer is alive; its own default is 20 s.
    setenv("UCX_KEEPALIVE_INTERVAL", "1s", 0);
    if (kind != MemoryKind::kHost &&
        !in_a_process([] { return cuda::available(0) ? EXIT_SUCCESS : EXIT_FAILURE; })) {
        return skip_without_cuda(0);
    }
    unsigned cases = 0;
    unsigned failed = 0;
    for (const Scenario& scenario : kScenarios) {
        std::printf("%s\n", scenario.name);
        ++cases;
        failed += !in_a_process([&] { return play(scenario, kind, wire.cut); });
        if (wire.mend != nullptr) {
            command(wire.mend);
        }
        ++cases;
        failed += !in_a_process([&] { return talk(kind); });
    }
    std::printf("%u cases, %u failed\n", cases, failed);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

} // namespace
} // namespace ucptest

int main(int argc, char** argv)
{
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    if (argc != 2 && argc != 4) {
        std::fprintf(stderr,
                     "usage: ucp_death host|cuda|managed [CUT MEND]\n"
                     "  CUT, MEND   shell commands that cut the wire, instead of killing the "
                     "peer, and mend it\n");
        return EXIT_FAILURE;
    }
    const ucptest::Wire wire = argc == 4 ? ucptest::Wire{argv[2], argv[3]} : ucptest::Wire{};
    return ucptest::run(ucptest::memory_kind(argv[1]), wire);
}
