// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucp_steady: operations on device or host buffers in the steady state cost no allocation, no
// registration, no mutex and no CUDA call beyond the attribute query of each look-up of a device
// buffer.
// Everything is warmed up first, then counted. steady.sh counts system calls from outside.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "../support/caller.hpp"
#include "../support/cuda.hpp"
#include "../support/emulation.hpp"
#include "../support/failure.hpp"
#include "../support/protocols.hpp"
#include "../support/report.hpp"
#include "allocations.hpp"
#include "locks.hpp"
#include "pair.hpp"

namespace ucptest {
namespace {

constexpr size_t kWindow = 16;
constexpr size_t kSizes[] = {8, 512, 4096, 65536};
constexpr unsigned kWarmUp = 2000; // operations of each size

struct Kind {
    const char* name;
    void (Pair::*start)(size_t index);
    unsigned requests; // of UCP's, outstanding in one operation
    // Look-ups in one operation, each worth one attribute query: UCP asks for the type of a
    // buffer's memory when it takes the request and again when it registers the buffer, and the
    // registration is looked up. With protocols v1 the receiver of a rendezvous asks once more when
    // it is matched; with v2 each end asks for the device of the allocation that it registers.
    unsigned lookups_v1;
    unsigned lookups_v2;
    // With v2 a put that an HCA takes inline is offered to the transport first, which looks.
    bool offered;
    bool from_target;
};

constexpr Kind kKinds[] = {{"put", &Pair::put, 1, 3, 4, true, false},
                           {"get", &Pair::get, 1, 3, 4, false, true},
                           {"tag", &Pair::send, 2, 7, 8, false, false},
                           {"am", &Pair::send_am, 2, 7, 8, false, false}};
constexpr size_t kInline = 8; // of kSizes, what an HCA takes inline

unsigned lookups(const Kind& kind, size_t size)
{
    if (!protocols_v2()) {
        return kind.lookups_v1;
    }
    return kind.lookups_v2 + (kind.offered && size <= kInline ? 1 : 0);
}

void operate(Pair& pair, const Kind& kind, unsigned operations)
{
    const size_t outstanding = kWindow * kind.requests;
    for (unsigned done = 0; done < operations; ++done) {
        pair.drain(outstanding - kind.requests);
        (pair.*kind.start)(done % kWindow);
    }
    pair.drain(0);
}

void run(Pair& pair, const Kind& kind, unsigned operations)
{
    operate(pair, kind, operations);
    pair.flush();
}

void check_data(Pair& pair, const Kind& kind, Report& report)
{
    const uint64_t moved = seed_of({1, pair.source().size()});
    const uint64_t empty = seed_of({2});
    pair.source().fill(kind.from_target ? empty : moved);
    pair.target().fill(kind.from_target ? moved : empty);
    run(pair, kind, kWindow);
    for (Messages* messages : {&pair.source(), &pair.target()}) {
        if (const auto wrong = messages->difference(moved)) {
            report.failed(*wrong);
        }
    }
}

uint64_t our_allocations()
{
    uint64_t ours = 0;
    for (int library = 0; caller_name(library) != nullptr; ++library) {
        ours += is_ours(library) ? allocations(library) : 0;
    }
    return ours;
}

// The first flush of an endpoint that has something to wait for.
void check_first_flush(Pair& pair, Report& report)
{
    start_counting_allocations();
    pair.put(0);
    pair.flush();
    stop_counting_allocations();
    pair.drain(0);
    if (our_allocations() > 0) {
        report.failed("memory was allocated or released");
    }
}

// The number of operations that are counted, of all sizes together.
void count(std::vector<std::unique_ptr<Pair>>& pairs, const Kind& kind, MemoryKind memory,
           unsigned operations, Report& report)
{
    for (auto& pair : pairs) {
        check_data(*pair, kind, report);
        run(*pair, kind, kWarmUp);
    }
    for (auto& pair : pairs) {
        pair->settle_caches();
    }
    const Emulation emulation;
    const uint64_t registrations = emulation.registrations();
    const uint64_t calls = emulation.cuda_calls();
    const uint64_t queries = emulation.attribute_queries();
    start_counting_allocations();
    start_counting_locks();
    const unsigned of_each = operations / static_cast<unsigned>(pairs.size());
    for (auto& pair : pairs) {
        run(*pair, kind, of_each);
    }
    stop_counting_locks();
    stop_counting_allocations();
    const uint64_t new_registrations = emulation.registrations() - registrations;
    const uint64_t new_queries = emulation.attribute_queries() - queries;
    const uint64_t other_calls = emulation.cuda_calls() - calls - new_queries;

    std::printf("%s, %u operations:", kind.name, operations);
    if (emulation.has_hca()) {
        std::printf(" %llu registrations;", static_cast<unsigned long long>(new_registrations));
    }
    if (emulation.has_driver()) {
        std::printf(" CUDA calls: %.2f attribute queries an operation, %llu others;",
                    static_cast<double>(new_queries) / operations,
                    static_cast<unsigned long long>(other_calls));
    }
    std::printf(" allocations:");
    const uint64_t ours = our_allocations();
    uint64_t locked = 0;
    for (int library = 0; caller_name(library) != nullptr; ++library) {
        if (allocations(library) > 0) {
            std::printf(" %s %llu", caller_name(library),
                        static_cast<unsigned long long>(allocations(library)));
        }
        if (is_ours(library)) {
            locked += locks(library);
        }
    }
    std::printf(" (ours %llu); %llu mutexes locked\n", static_cast<unsigned long long>(ours),
                static_cast<unsigned long long>(locked));

    if (new_registrations > 0) {
        report.failed("memory was registered");
    }
    if (other_calls > 0) {
        report.failed("CUDA was called for more than attributes");
    }
    // Host memory that was asked about before is known, but for pages that crowd one set of the
    // table, now and then.
    uint64_t allowed = memory == MemoryKind::kHost ? operations / 100 : 0;
    if (memory != MemoryKind::kHost) {
        for (auto& pair : pairs) {
            allowed += uint64_t{lookups(kind, pair->source().size())} * of_each;
        }
    }
    if (new_queries > allowed) {
        report.failed("attributes were queried more than once a look-up");
    }
    if (ours > 0) {
        report.failed("memory was allocated or released");
    }
    if (locked > operations / 100) { // threads that wake up by the clock lock now and then
        report.failed("mutexes were locked");
    }
}

// The counting itself: what libucp allocates must be found, and found to be libucp's.
void check_counting()
{
    start_counting_allocations();
    ucp_config_t* config = nullptr;
    require_ok(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    ucp_config_release(config);
    stop_counting_allocations();
    for (int library = 0; caller_name(library) != nullptr; ++library) {
        if (std::string(caller_name(library)).starts_with("libucp.so") &&
            allocations(library) > 0) {
            return;
        }
    }
    throw Failure("allocations of libucp are not counted");
}

int run(unsigned operations, MemoryKind memory)
{
    // Rendezvous at every size, unless the environment says otherwise.
    setenv("UCX_RNDV_THRESH", "0", 0);
    Report report("ucp_steady");
    if (memory != MemoryKind::kHost && !cuda::available(0)) {
        return skip_without_cuda(0);
    }
    report.begin("start", deadline_s());
    std::vector<std::unique_ptr<Pair>> pairs;
    for (size_t size : kSizes) {
        pairs.push_back(std::make_unique<Pair>(memory, size, kWindow));
    }
    for (auto& pair : pairs) {
        operate(*pair, kKinds[0], kWindow); // connects, and so loads what is loaded late
    }
    remember_libraries();
    if (allocations_can_be_counted()) {
        check_counting();
    } else {
        std::printf("allocations are not counted under a sanitizer\n");
    }
    report.begin("first flush", deadline_s());
    for (auto& pair : pairs) {
        check_first_flush(*pair, report);
    }
    for (const Kind& kind : kKinds) {
        report.begin(kind.name, 10 * deadline_s());
        count(pairs, kind, memory, operations, report);
    }
    report.begin("end", deadline_s());
    for (auto& pair : pairs) {
        pair->close();
    }
    report.end();
    std::printf("%u cases, %u failed\n", report.cases(), report.failures());
    return report.failures() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

} // namespace
} // namespace ucptest

int main(int argc, char** argv)
{
    unsigned long operations = 100000;
    auto memory = ucptest::MemoryKind::kCuda;
    try {
        if (argc > 1) {
            operations = std::stoul(argv[1]);
        }
        if (argc > 2) {
            memory = ucptest::memory_kind(argv[2]);
        }
        ucptest::require(argc <= 3 && operations > 0, "too many arguments");
    } catch (const std::exception& error) {
        std::fprintf(stderr,
                     "%s\nusage: ucp_steady [operations of each kind [host|cuda|managed]]\n",
                     error.what());
        return EXIT_FAILURE;
    }
    return ucptest::run(static_cast<unsigned>(operations), memory);
}
