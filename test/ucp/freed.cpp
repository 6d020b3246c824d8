// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucp_freed: device memory is allocated, transferred and freed over and over, then no more is
// transferred. A GPU's driver keeps what is registered by dmabuf: the application must not run out
// of memory meanwhile, and has it all back soon after.
#include <chrono>
#include <cstdio>
#include <cstdlib>

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
constexpr size_t kSize = size_t{3} << 20; // test/ucp/freed_test.sh: six fit
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

// Nothing is transferred while this waits.
bool is_free(size_t bytes)
{
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (cuda::free_memory() < bytes && std::chrono::steady_clock::now() < until)
        usleep(10000);
    return cuda::free_memory() >= bytes;
}

int run()
{
    Ranks ranks(2);
    Report report(format("rank %d", ranks.rank()));
    if (!cuda::available(ranks.rank()))
        return skip_without_cuda(ranks.rank());
    report.begin("transfers", 2 * deadline_s());
    Worker worker(UCP_FEATURE_TAG, false);
    Endpoints endpoints(ranks, worker, Endpoints::Connect::kWorkerAddress, false);
    const size_t before = cuda::free_memory();
    for (unsigned round = 0; round < kRounds; ++round)
        transfer(ranks, worker, endpoints, round);
    report.begin("freed memory", 2 * deadline_s());
    if (!is_free(before))
        report.failed(format("%zu of %zu bytes are free", cuda::free_memory(), before));
    report.begin("end", 2 * deadline_s());
    const uint64_t failures = ranks.sum(report.failures(), worker, "results");
    endpoints.close();
    report.end();
    if (ranks.rank() != 0)
        return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    std::printf("%u rounds, %llu failed\n", kRounds, static_cast<unsigned long long>(failures));
    return ranks.join() > 0 || failures > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

} // namespace
} // namespace ucptest

int main()
{
    return ucptest::run();
}
