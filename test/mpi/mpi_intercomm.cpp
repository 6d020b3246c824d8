// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_intercomm: every collective call that inter-communicators have, between the even and the odd
// ranks, blocking and not, first on host memory, then on GPU memory: every byte has to be the same,
// also of buffers that are not significant. Exits with 0, with 1 when a byte is wrong, with 77
// without a CUDA driver.
#include <cstdio>
#include <functional>
#include <vector>

#include <mpi.h>

#include "gpu.hpp"

namespace {

constexpr int kCount = 300; // of integers, for each pair of ranks

MPI_Comm others; // the inter-communicator
int rank, ranks, own_size, other_size;

// What a call sends and receives, and its counts and displacements, for each rank of the others.
struct Buffers {
    void *out, *in;
    int count;
    std::vector<int> counts, places, bytes, lengths;
    std::vector<MPI_Datatype> types;
    int root = 0;
    MPI_Request* request;
};

struct Call {
    const char* name;
    std::function<int(const Buffers&)> make;
};

#define CALL(name, ...)                                                                            \
    {                                                                                              \
        "MPI_" #name, [](const Buffers& b) { return MPI_##name(__VA_ARGS__, others); }             \
    }
#define NONBLOCKING(name, ...)                                                                     \
    {                                                                                              \
        "MPI_" #name, [](const Buffers& b) { return MPI_##name(__VA_ARGS__, others, b.request); }  \
    }
#define BOTH(name, nonblocking, ...) CALL(name, __VA_ARGS__), NONBLOCKING(nonblocking, __VA_ARGS__)

const Call kCalls[] = {
    BOTH(Bcast, Ibcast, b.in, b.count, MPI_INT, b.root),
    BOTH(Allreduce, Iallreduce, b.out, b.in, b.count, MPI_INT, MPI_BXOR),
    BOTH(Allgather, Iallgather, b.out, b.count, MPI_INT, b.in, b.count, MPI_INT),
    BOTH(Allgatherv, Iallgatherv, b.out, b.count, MPI_INT, b.in, b.counts.data(), b.places.data(),
         MPI_INT),
    BOTH(Alltoall, Ialltoall, b.out, b.count, MPI_INT, b.in, b.count, MPI_INT),
    BOTH(Alltoallv, Ialltoallv, b.out, b.counts.data(), b.places.data(), MPI_INT, b.in,
         b.counts.data(), b.places.data(), MPI_INT),
    BOTH(Alltoallw, Ialltoallw, b.out, b.counts.data(), b.bytes.data(), b.types.data(), b.in,
         b.counts.data(), b.bytes.data(), b.types.data()),
    BOTH(Gather, Igather, b.out, b.count, MPI_INT, b.in, b.count, MPI_INT, b.root),
    BOTH(Gatherv, Igatherv, b.out, b.count, MPI_INT, b.in, b.counts.data(), b.places.data(),
         MPI_INT, b.root),
    BOTH(Reduce, Ireduce, b.out, b.in, b.count, MPI_INT, MPI_BXOR, b.root),
    BOTH(Reduce_scatter, Ireduce_scatter, b.out, b.in, b.lengths.data(), MPI_INT, MPI_BXOR),
    BOTH(Reduce_scatter_block, Ireduce_scatter_block, b.out, b.in, b.lengths[0], MPI_INT, MPI_BXOR),
    BOTH(Scatter, Iscatter, b.out, b.count, MPI_INT, b.in, b.count, MPI_INT, b.root),
    BOTH(Scatterv, Iscatterv, b.out, b.counts.data(), b.places.data(), MPI_INT, b.in, b.count,
         MPI_INT, b.root),
};

std::vector<char> filled(char of)
{
    std::vector<char> bytes(sizeof(int) * (kCount + 5) * static_cast<size_t>(ranks) * ranks);
    for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<char>(of + static_cast<char>(i * 7 / 5));
    }
    return bytes;
}

// What is in both buffers afterwards. The root is of the even ranks, or of the odd ones.
std::vector<char> outcome(const Call& call, bool root_is_even, bool on_gpu)
{
    gpu::Bytes out(filled(static_cast<char>(rank)), on_gpu), in(filled(100), on_gpu);
    MPI_Request request = MPI_REQUEST_NULL;
    Buffers buffers{.out = out.data(), .in = in.data(), .count = kCount, .request = &request};
    for (int other = 0; other < other_size; ++other) {
        buffers.counts.push_back(kCount);
        buffers.places.push_back(other * (kCount + 5));
        buffers.bytes.push_back(other * (kCount + 5) * static_cast<int>(sizeof(int)));
        buffers.types.push_back(MPI_INT);
    }
    buffers.lengths.assign(static_cast<size_t>(own_size), kCount * other_size); // alike on both
    const bool with_root = (rank % 2 == 0) == root_is_even;
    if (with_root) {
        buffers.root = rank < 2 ? MPI_ROOT : MPI_PROC_NULL;
    }
    call.make(buffers);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    std::vector<char> bytes = in.bytes();
    bytes.insert(bytes.end(), out.bytes().begin(), out.bytes().end());
    return bytes;
}

bool right(const Call& call, bool root_is_even)
{
    const std::vector<char> expected = outcome(call, root_is_even, false);
    const std::vector<char> found = outcome(call, root_is_even, true);
    for (size_t i = 0; i < found.size(); ++i) {
        if (found[i] != expected[i]) {
            std::fprintf(stderr, "rank %d: %s: byte %zu of %zu is wrong\n", rank, call.name, i,
                         found.size());
            return false;
        }
    }
    return true;
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    gpu::use(rank);
    MPI_Comm own;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &own);
    MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, 1 - rank % 2, 7, &others);
    MPI_Comm_size(others, &own_size);
    MPI_Comm_remote_size(others, &other_size);
    bool good = true;
    for (const Call& call : kCalls) {
        for (const bool root_is_even : {true, false}) {
            good = right(call, root_is_even) && good;
        }
    }
    MPI_Comm_free(&others);
    MPI_Comm_free(&own);
    MPI_Finalize();
    return good ? 0 : 1;
}
