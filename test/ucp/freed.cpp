// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucp_freed: device memory is allocated, transferred and freed over and over, then no more is
// transferred. A GPU's driver keeps what is registered by dmabuf: the application must not run out
// of memory meanwhile, and has it all back soon after, or, where the module is told of what is
// freed ("at once"), before the call that frees it returns: most of the GPU's memory can then be
// allocated, transferred and freed in each round.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <unistd.h>

#include "support/cuda.hpp"
#include "support/endpoints.hpp"
#include "support/failure.hpp"
#include "support/in_flight.hpp"
#include "support/messages.hpp"
#include "support/report.hpp"

namespace ucptest {
namespace {

constexpr unsigned kRounds = 20;
constexpr size_t kSize = size_t{3} << 20;  // test/ucp/freed_test.sh: six fit
constexpr size_t kMost = size_t{12} << 20; // of 20 MiB
constexpr unsigned kRoundsOfMost = 4;
// Of a pool it is freed in the order of a stream, and nobody tells when.
constexpr MemoryKind kKinds[] = {MemoryKind::kCuda, MemoryKind::kVmm, MemoryKind::kSegments};
constexpr auto kPatience = std::chrono::seconds(20);

void transfer(Ranks& ranks, Worker& worker, Endpoints& endpoints, unsigned round)
{
    const int peer = 1 - ranks.rank();
    Messages near(MemoryKind::kCuda, kSize, 1, false);
    Messages far(MemoryKind::kCuda, kSize, 1, false);
    near.fill(seed_of({round, static_cast<uint64_t>(ranks.rank())}));
    far.fill(0);
    InFlight operations(worker);
    operations.tag_receive(far.view(0), round, far.size());
    operations.tag_send(endpoints.to(peer), near.view(0), round);
    operations.wait(format("round %u", round));
    const auto wrong = far.difference(seed_of({round, static_cast<uint64_t>(peer)}));
    require(!wrong, wrong.value_or(""));
    ranks.barrier(worker, "the round is over");
}

// Of what is freed nothing else is transferred.
void transfer_most(Ranks& ranks, Worker& worker, Endpoints& endpoints, InFlight::Types types,
                   MemoryKind kind, unsigned round)
{
    const int peer = 1 - ranks.rank();
    {
        Memory memory(kind, kMost);
        const auto mine = pattern(seed_of({round, static_cast<uint64_t>(ranks.rank())}), 0, kSize);
        const auto theirs = pattern(seed_of({round, static_cast<uint64_t>(peer)}), 0, kSize);
        memory.store(0, mine.data(), kSize);
        const auto at = [&](size_t offset) {
            return View{memory.address(offset), kSize, ucp_dt_make_contig(1), UCS_MEMORY_TYPE_CUDA};
        };
        InFlight operations(worker, types);
        operations.tag_receive(at(kMost - kSize), round, kSize);
        operations.tag_send(endpoints.to(peer), at(0), round);
        operations.wait(format("%s, round %u", name(kind), round));
        ranks.barrier(worker, "the round is over");
        std::vector<uint8_t> arrived(kSize);
        memory.load(arrived.data(), kMost - kSize, kSize);
        require(arrived == theirs, "other bytes have arrived");
    }
    ranks.barrier(worker, "all is freed");
}

// Nothing is transferred while this waits.
bool is_free(size_t bytes)
{
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (cuda::free_memory() < bytes && std::chrono::steady_clock::now() < until) {
        usleep(10000);
    }
    return cuda::free_memory() >= bytes;
}

int run(bool at_once)
{
    Ranks ranks(2);
    Report report(format("rank %d", ranks.rank()));
    if (!cuda::available(ranks.rank())) {
        return skip_without_cuda(ranks.rank());
    }
    report.begin("transfers", 2 * deadline_s());
    Worker worker(UCP_FEATURE_TAG, false);
    Endpoints endpoints(ranks, worker, Endpoints::Connect::kWorkerAddress, false);
    const size_t before = cuda::free_memory();
    for (unsigned round = 0; round < kRounds; ++round) {
        transfer(ranks, worker, endpoints, round);
    }
    if (at_once) {
        unsigned round = kRounds;
        for (const auto types : {InFlight::Types::kFound, InFlight::Types::kTold}) {
            for (const MemoryKind kind : kKinds) {
                report.begin(format("most of the memory, %s", name(kind)), 2 * deadline_s());
                for (unsigned i = 0; i < kRoundsOfMost; ++i) {
                    transfer_most(ranks, worker, endpoints, types, kind, ++round);
                }
                if (cuda::free_memory() < before) {
                    report.failed(format("%zu of %zu bytes are free", cuda::free_memory(), before));
                }
            }
        }
    }
    report.begin("freed memory", 2 * deadline_s());
    if (!is_free(before)) {
        report.failed(format("%zu of %zu bytes are free", cuda::free_memory(), before));
    }
    report.begin("end", 2 * deadline_s());
    const uint64_t failures = ranks.sum(report.failures(), worker, "results");
    endpoints.close();
    report.end();
    if (ranks.rank() != 0) {
        return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    std::printf("%u rounds, %llu failed\n", kRounds, static_cast<unsigned long long>(failures));
    return ranks.join() > 0 || failures > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

} // namespace
} // namespace ucptest

// ucp_freed [at_once]
int main(int argc, char** argv)
{
    return ucptest::run(argc > 1 && std::string(argv[1]) == "at_once");
}
