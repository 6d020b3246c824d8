// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucp_stale: device memory is transferred, freed, and allocated again at the same address, alike or
// in other sizes and kinds. An old registration of that address reaches memory that belongs to
// nobody any more, so data is right only if registrations are checked against the allocation that
// exists now.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/cuda.hpp"
#include "support/endpoints.hpp"
#include "support/failure.hpp"
#include "support/in_flight.hpp"
#include "support/messages.hpp"
#include "support/remote_memory.hpp"
#include "support/report.hpp"

namespace ucptest {
namespace {

constexpr unsigned kRounds = 8;
constexpr size_t kSizes[] = {8, 4096, 65536, 3 << 20};

// Buffers that are there together, each an allocation of its own, where those of the steps before
// were.
struct Step {
    MemoryKind kind;
    size_t size;
    unsigned buffers;
    bool by_hca = true; // every HCA takes this kind
};
constexpr Step kSteps[] = {
    {MemoryKind::kCuda, 6 << 20, 1},
    {MemoryKind::kCuda, 600000, 5},
    {MemoryKind::kVmm, 1 << 20, 2},
    {MemoryKind::kCuda, 9 << 20, 1},
    {MemoryKind::kManaged, 500000, 2},
    {MemoryKind::kCuda, 1 << 20, 4},
    {MemoryKind::kSegments, 1 << 20, 1, false},
    {MemoryKind::kPool, 700000, 2, false},
    {MemoryKind::kCuda, 4096, 16},
    {MemoryKind::kImported, 1 << 20, 1, false},
    {MemoryKind::kCuda, 3 << 20, 2},
};
constexpr unsigned kTurns = 3;

enum class Way { kTag, kTypedTag, kPut, kGet };
constexpr struct {
    Way way;
    const char* name;
} kWays[] = {{Way::kTag, "tag"}, {Way::kTypedTag, "typed"}, {Way::kPut, "put"}, {Way::kGet, "get"}};

class Test {
  public:
    Test(Ranks& ranks, Report& report)
        : ranks_(ranks), report_(report), worker_(UCP_FEATURE_TAG | UCP_FEATURE_RMA, false),
          endpoints_(ranks, worker_, Endpoints::Connect::kWorkerAddress, false),
          peer_(1 - ranks.rank())
    {
    }

    // The two ranks send to each other; every buffer of a round is freed before the next.
    void run(Way way, size_t size)
    {
        // Allocations of other sizes between the rounds move the boundaries of the allocation
        // around an address, not only its identity.
        std::map<void*, unsigned> seen;
        for (unsigned round = 0; round < kRounds; ++round) {
            const size_t count = 1 + round % 3;
            Messages near(MemoryKind::kCuda, size, count, false);
            Messages far(MemoryKind::kCuda, size, count, false);
            reused_ += seen[near.memory().address()]++ > 0;
            reused_ += seen[far.memory().address()]++ > 0;
            transfer(way, near, far, round);
        }
    }

    void replace(Way way, bool by_hca)
    {
        for (unsigned turn = 0; turn < kTurns; ++turn) {
            for (const Step& step : kSteps) {
                if (by_hca && !step.by_hca) {
                    continue;
                }
                std::vector<std::unique_ptr<Messages>> buffers;
                for (unsigned i = 0; i < 2 * step.buffers; ++i) {
                    buffers.push_back(std::make_unique<Messages>(step.kind, step.size, 1, false));
                }
                for (unsigned i = 0; i < step.buffers; ++i) {
                    transfer(way, *buffers[2 * i], *buffers[2 * i + 1], ++transfers_);
                }
                for (const auto& buffer : buffers) {
                    note(*buffer);
                }
            }
        }
    }

    // CUDA fails the application's copies of what lies partly in pinned memory, as new memory may
    // where that was mapped for UCP and freed.
    void unmap_host_memory()
    {
        const Memory memory(MemoryKind::kHost, 1 << 20);
        {
            const ExposedMemory exposed(worker_, memory);
        }
        if (cuda::is_pinned(memory.address())) {
            report_.failed("host memory that is unmapped stays pinned");
        }
    }

    unsigned reused() const { return reused_; }
    unsigned overlapping() const { return overlapping_; }
    void close() { endpoints_.close(); }
    Worker& worker() { return worker_; }

  private:
    // Of buffers that were at a place of which a part was another's before.
    void note(Messages& buffer)
    {
        const auto start = reinterpret_cast<uintptr_t>(buffer.memory().address());
        const uintptr_t end = start + buffer.memory().size();
        overlapping_ += std::ranges::any_of(places_, [&](const auto& place) {
            return start < place.second && end > place.first &&
                   std::pair(start, end) != std::pair(place.first, place.second);
        });
        places_.emplace(start, end);
    }

    void transfer(Way way, Messages& near, Messages& far, unsigned round)
    {
        const bool to_far = way != Way::kGet;
        const uint64_t mine = seed_of({round, near.size(), static_cast<uint64_t>(ranks_.rank())});
        const uint64_t theirs = seed_of({round, near.size(), static_cast<uint64_t>(peer_)});
        near.fill(to_far ? mine : 0);
        far.fill(to_far ? 0 : mine);
        ExposedMemory exposed(worker_, far.memory());
        const auto packed =
            ranks_.exchange([&](int) { return exposed.packed(); }, worker_, "remote memory");
        RemoteMemory remote(endpoints_.to(peer_), packed.at(static_cast<size_t>(peer_)));
        InFlight operations(worker_, way == Way::kTypedTag ? InFlight::Types::kTold
                                                           : InFlight::Types::kFound);
        for (size_t index = 0; index < near.count(); ++index) {
            const auto offset = static_cast<size_t>(static_cast<char*>(far.address(index)) -
                                                    static_cast<char*>(far.memory().address()));
            const ucp_tag_t tag = uint64_t{round} << 32 | index;
            switch (way) {
            case Way::kTag:
            case Way::kTypedTag:
                operations.tag_receive(far.view(index), tag, far.size());
                operations.tag_send(endpoints_.to(peer_), near.view(index), tag);
                break;
            case Way::kPut:
                operations.put(endpoints_.to(peer_), near.view(index), remote.address(offset),
                               remote.rkey());
                break;
            case Way::kGet:
                operations.get(endpoints_.to(peer_), near.view(index), remote.address(offset),
                               remote.rkey());
                break;
            }
        }
        operations.flush(endpoints_.to(peer_));
        operations.wait(format("round %u", round));
        ranks_.barrier(worker_, "all is flushed");
        if (const auto wrong = near.difference(to_far ? mine : theirs)) {
            report_.failed(format("round %u, near side: %s", round, wrong->c_str()));
        }
        if (const auto wrong = far.difference(to_far ? theirs : mine)) {
            report_.failed(format("round %u, far side: %s", round, wrong->c_str()));
        }
        ranks_.barrier(worker_, "the round is over");
    }

    Ranks& ranks_;
    Report& report_;
    Worker worker_;
    Endpoints endpoints_;
    int peer_;
    unsigned reused_ = 0;
    unsigned overlapping_ = 0;
    unsigned transfers_ = 0;
    std::set<std::pair<uintptr_t, uintptr_t>> places_; // start and end
};

int run(const std::string& ways, bool by_hca)
{
    // Zero-copy wherever the sizes permit it, also where UCP would choose a copy.
    setenv("UCX_RNDV_THRESH", "0", 0);
    setenv("UCX_ZCOPY_THRESH", "0", 0);
    Ranks ranks(2);
    Report report(format("rank %d", ranks.rank()));
    if (!cuda::available(ranks.rank())) {
        return skip_without_cuda(ranks.rank());
    }
    report.begin("start", 2 * deadline_s());
    Test test(ranks, report);
    report.begin("host memory", 2 * deadline_s());
    test.unmap_host_memory();
    for (const auto& [way, name] : kWays) {
        if (ways.find(name) == std::string::npos) {
            continue;
        }
        for (size_t size : kSizes) {
            report.begin(format("%s %zu bytes", name, size), 2 * deadline_s());
            test.run(way, size);
        }
        report.begin(format("%s, replaced", name), 4 * deadline_s());
        test.replace(way, by_hca);
    }
    report.begin("end", 2 * deadline_s());
    const uint64_t failures = ranks.sum(report.failures(), test.worker(), "results");
    const uint64_t reused = ranks.sum(test.reused(), test.worker(), "reused addresses");
    const uint64_t overlapping = ranks.sum(test.overlapping(), test.worker(), "other places");
    test.close();
    report.end();
    if (ranks.rank() != 0) {
        return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    std::printf("%u cases, %llu failed; %llu buffers at an address used before, %llu at a place "
                "that others had a part of\n",
                report.cases() - 2, static_cast<unsigned long long>(failures),
                static_cast<unsigned long long>(reused),
                static_cast<unsigned long long>(overlapping));
    if (ranks.join() > 0 || failures > 0) {
        return EXIT_FAILURE;
    }
    if (reused == 0 || overlapping == 0) {
        std::printf("skipped: the driver never used an address again\n");
        return kSkip;
    }
    return EXIT_SUCCESS;
}

} // namespace
} // namespace ucptest

// ucp_stale [WAYS [all]]: by default all ways, with the kinds that every HCA takes.
int main(int argc, char** argv)
{
    return ucptest::run(argc > 1 ? argv[1] : "tag,typed,put,get", argc <= 2);
}
