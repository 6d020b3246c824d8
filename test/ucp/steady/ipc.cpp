// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucp_ipc_steady: two processes of a host send each other rendezvous messages from and to the same
// device memory, by CUDA IPC. In the steady state that costs no allocation, no mutex and no CUDA
// call but those of the copy; which those are is printed for each message and limited.
// steady_test.sh counts system calls from outside.
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>

#include "../support/caller.hpp"
#include "../support/cuda.hpp"
#include "../support/emulation.hpp"
#include "../support/endpoints.hpp"
#include "../support/failure.hpp"
#include "../support/in_flight.hpp"
#include "../support/messages.hpp"
#include "../support/protocols.hpp"
#include "../support/ranks.hpp"
#include "../support/report.hpp"
#include "allocations.hpp"
#include "locks.hpp"

namespace ucptest {
namespace {

constexpr size_t kSize = 65536;
constexpr unsigned kWarmUp = 200;

// CUDA's functions that a message may call, and how often at most: UCP asks what memory a buffer is
// (see ucp_steady), IPC for its key and for its copy. Polling calls others as often as it polls.
struct Limit {
    const char* function;
    unsigned calls;
    unsigned more_v2 = 0; // with protocols v2
};
constexpr unsigned kAnyNumber = ~0u;
constexpr Limit kLimits[] = {
    {"cuPointerGetAttributes", 8, 2},
    {"cuMemcpyDtoDAsync", 1},
    {"cuCtxGetId", 1},
    {"cuEventRecord", 1},
    {"cuCtxGetCurrent", 1},
    {"cuCtxPushCurrent", 2},
    {"cuCtxPopCurrent", 2},
    {"cuEventQuery", kAnyNumber},
    {"cuThreadExchangeStreamCaptureMode", kAnyNumber},
};

uint64_t of_ours(uint64_t (*count)(int library))
{
    uint64_t sum = 0;
    for (int library = 0; caller_name(library) != nullptr; ++library) {
        if (is_ours(library)) {
            sum += count(library);
        }
    }
    return sum;
}

struct Calls {
    explicit Calls(const Emulation& emulation) : all(emulation.cuda_calls())
    {
        for (size_t i = 0; i < std::size(kLimits); ++i) {
            by_function[i] = emulation.cuda_calls(kLimits[i].function);
        }
    }
    uint64_t all;
    uint64_t by_function[std::size(kLimits)];
};

void judge(const Calls& before, const Calls& after, unsigned messages, Report& report)
{
    uint64_t others = after.all - before.all;
    for (size_t i = 0; i < std::size(kLimits); ++i) {
        const uint64_t calls = after.by_function[i] - before.by_function[i];
        others -= calls;
        std::printf("%s: %.2f a message\n", kLimits[i].function,
                    static_cast<double>(calls) / messages);
        const unsigned limit = kLimits[i].calls + (protocols_v2() ? kLimits[i].more_v2 : 0);
        if (kLimits[i].calls != kAnyNumber && calls > uint64_t{limit} * messages) {
            report.failed(
                format("%s is called more often than %u times", kLimits[i].function, limit));
        }
    }
    std::printf("%llu other CUDA calls, %llu allocations, %llu mutexes locked\n",
                static_cast<unsigned long long>(others),
                static_cast<unsigned long long>(of_ours(allocations)),
                static_cast<unsigned long long>(of_ours(locks)));
    if (others > 0) {
        report.failed("other CUDA functions were called");
    }
    if (of_ours(allocations) > 0) {
        report.failed("memory was allocated or released");
    }
    if (of_ours(locks) > messages / 100) { // threads that wake up by the clock lock now and then
        report.failed("mutexes were locked");
    }
    const uint64_t copies = after.by_function[1] - before.by_function[1];
    if (copies < messages) {
        report.failed(
            format("only %llu messages went by CUDA IPC", static_cast<unsigned long long>(copies)));
    }
}

int run(unsigned messages)
{
    setenv("UCX_RNDV_THRESH", "0", 0);
    Ranks ranks(2);
    Report report(format("rank %d", ranks.rank()));
    if (!cuda::available(ranks.rank())) {
        return skip_without_cuda(ranks.rank());
    }
    if (!allocations_can_be_counted()) {
        std::printf("allocations are not counted under a sanitizer\n");
    }
    report.begin("messages", 10 * deadline_s());
    Worker worker(UCP_FEATURE_TAG, false);
    Endpoints endpoints(ranks, worker, Endpoints::Connect::kWorkerAddress, false);
    const int peer = 1 - ranks.rank();
    Messages out(MemoryKind::kCuda, kSize, 4, false);
    Messages in(MemoryKind::kCuda, kSize, 4, false);
    out.fill(seed_of({7, static_cast<uint64_t>(ranks.rank())}));
    in.fill(0);
    const auto exchange = [&](unsigned count) {
        InFlight operations(worker);
        for (unsigned i = 0; i < count; ++i) {
            operations.tag_receive(in.view(i % 4), i, kSize);
            operations.tag_send(endpoints.to(peer), out.view(i % 4), i);
            operations.wait("messages");
        }
    };
    exchange(kWarmUp);
    ranks.barrier(worker, "warmed up");
    const Emulation emulation;
    require(emulation.has_driver(), "not the emulated driver, which counts");
    remember_libraries();
    const Calls before(emulation);
    start_counting_allocations();
    start_counting_locks();
    exchange(messages);
    stop_counting_locks();
    stop_counting_allocations();
    const Calls after(emulation);
    ranks.barrier(worker, "counted");
    judge(before, after, messages, report);
    if (const auto wrong = in.difference(seed_of({7, static_cast<uint64_t>(peer)}))) {
        report.failed(*wrong);
    }
    endpoints.close();
    report.end();
    return ranks.join() + static_cast<int>(report.failures());
}

} // namespace
} // namespace ucptest

int main(int argc, char** argv)
{
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    unsigned long messages = 2000;
    try {
        if (argc > 1) {
            messages = std::stoul(argv[1]);
        }
        ucptest::require(argc <= 2 && messages > 0, "too many arguments");
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\nusage: ucp_ipc_steady [messages each way]\n", error.what());
        return EXIT_FAILURE;
    }
    return ucptest::run(static_cast<unsigned>(messages));
}
