// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_compare SEED [CASE]...: calls with their buffers in host memory, and once more with each in
// host or GPU memory at random: every byte of every buffer has to be the same, also those that
// belong to no call, and what MPI tells of messages. Exits with 1 when something is not, with 77
// without a CUDA driver.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <mpi.h>

#include "compare/collectives.hpp"
#include "compare/datatypes.hpp"
#include "compare/files.hpp"
#include "compare/memories.hpp"
#include "compare/messages.hpp"
#include "compare/one_sided.hpp"

namespace {

using compare::Case;
using compare::Trial;

bool same(const char* name, const Trial& host, const Trial& trial)
{
    bool same = host.told() == trial.told();
    if (!same) {
        std::printf("rank %d: FAILED: %s, buffers %s: told", compare::rank, name,
                    trial.places().c_str());
        for (size_t i = 0; i < host.told().size(); ++i) {
            std::printf(" %ld/%ld", host.told()[i], trial.told()[i]);
        }
        std::puts("");
    }
    for (size_t i = 0; i < host.buffers(); ++i) {
        const std::vector<char> expected = host.bytes(i), bytes = trial.bytes(i);
        const auto wrong = std::ranges::mismatch(expected, bytes);
        if (wrong.in1 == expected.end()) {
            continue;
        }
        std::printf("rank %d: FAILED: %s, buffers %s: buffer %zu differs from byte %td on\n",
                    compare::rank, name, trial.places().c_str(), i, wrong.in1 - expected.begin());
        same = false;
    }
    return same;
}

bool succeeds(const Case& tried, std::mt19937& random)
{
    Trial host(nullptr), trial(&random);
    tried.make(host);
    MPI_Barrier(compare::world);
    tried.make(trial);
    MPI_Barrier(compare::world);
    return same(tried.name, host, trial);
}

} // namespace

int main(int argc, char** argv)
{
    if (argc < 2) {
        return 2;
    }
    gpu::use(gpu::rank_in_job());
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &compare::world);
    MPI_Comm_rank(compare::world, &compare::rank);
    MPI_Comm_size(compare::world, &compare::ranks);
    std::mt19937 random(static_cast<unsigned>(1000 * std::atoi(argv[1]) + compare::rank));
    const std::vector<std::string> chosen(argv + 2, argv + argc);
    int wrong = 0;
    for (const compare::Cases* cases :
         {&compare::kDatatypes, &compare::kMemories, &compare::kMessages, &compare::kCollectives,
          &compare::kOneSided, &compare::kFiles}) {
        for (const Case& tried : *cases) {
            if (compare::ranks < tried.fewest_ranks ||
                (!chosen.empty() && std::ranges::find(chosen, tried.name) == chosen.end())) {
                continue;
            }
            if (compare::rank == 0) {
                std::printf("%s\n", tried.name);
            }
            std::fflush(stdout);
            wrong += succeeds(tried, random) ? 0 : 1;
        }
    }
    MPI_Comm_free(&compare::world);
    MPI_Finalize();
    return wrong == 0 ? 0 : 1;
}
