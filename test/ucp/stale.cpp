// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucp_stale: device memory is transferred, freed, and allocated again at the same address. An old
// registration of that address reaches memory that belongs to nobody any more, so data is right
// only if registrations are checked against the allocation that exists now.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>

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

enum class Way { kTag, kPut, kGet };
constexpr struct {
    Way way;
    const char* name;
} kWays[] = {{Way::kTag, "tag"}, {Way::kPut, "put"}, {Way::kGet, "get"}};

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

    unsigned reused() const { return reused_; }
    void close() { endpoints_.close(); }
    Worker& worker() { return worker_; }

  private:
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
        InFlight operations(worker_);
        for (size_t index = 0; index < near.count(); ++index) {
            const auto offset = static_cast<size_t>(static_cast<char*>(far.address(index)) -
                                                    static_cast<char*>(far.memory().address()));
            const ucp_tag_t tag = uint64_t{round} << 32 | index;
            switch (way) {
            case Way::kTag:
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
        if (const auto wrong = near.difference(to_far ? mine : theirs))
            report_.failed(format("round %u, near side: %s", round, wrong->c_str()));
        if (const auto wrong = far.difference(to_far ? theirs : mine))
            report_.failed(format("round %u, far side: %s", round, wrong->c_str()));
        ranks_.barrier(worker_, "the round is over");
    }

    Ranks& ranks_;
    Report& report_;
    Worker worker_;
    Endpoints endpoints_;
    int peer_;
    unsigned reused_ = 0;
};

int run()
{
    // Zero-copy wherever the sizes permit it, also where UCP would choose a copy.
    setenv("UCX_RNDV_THRESH", "0", 0);
    setenv("UCX_ZCOPY_THRESH", "0", 0);
    Ranks ranks(2);
    Report report(format("rank %d", ranks.rank()));
    if (!cuda::available(ranks.rank()))
        return skip_without_cuda(ranks.rank());
    report.begin("start", 2 * deadline_s());
    Test test(ranks, report);
    for (const auto& [way, name] : kWays) {
        for (size_t size : kSizes) {
            report.begin(format("%s %zu bytes", name, size), 2 * deadline_s());
            test.run(way, size);
        }
    }
    report.begin("end", 2 * deadline_s());
    const uint64_t failures = ranks.sum(report.failures(), test.worker(), "results");
    const uint64_t reused = ranks.sum(test.reused(), test.worker(), "reused addresses");
    test.close();
    report.end();
    if (ranks.rank() != 0)
        return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    std::printf("%u cases, %llu failed; %llu buffers at an address used before\n",
                report.cases() - 2, static_cast<unsigned long long>(failures),
                static_cast<unsigned long long>(reused));
    if (ranks.join() > 0 || failures > 0)
        return EXIT_FAILURE;
    if (reused == 0) {
        std::printf("skipped: the driver never used an address again\n");
        return kSkip;
    }
    return EXIT_SUCCESS;
}

} // namespace
} // namespace ucptest

int main()
{
    return ucptest::run();
}
