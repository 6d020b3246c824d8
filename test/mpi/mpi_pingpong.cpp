// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_pingpong: MPI_Send and MPI_Recv there and back between two ranks, from host and GPU memory
// into host and GPU memory. Every byte that arrives is checked. Exits with 0 when all are right.
#include <cstdint>
#include <cstdio>
#include <vector>

#include <mpi.h>

#include "../ucp/support/cuda.hpp"
#include "../ucp/support/failure.hpp"
#include "../ucp/support/memory.hpp"

namespace {

using ucptest::MemoryKind;

constexpr int kRounds = 2;
constexpr size_t kSizes[] = {8, 4096, 1 << 20};
constexpr MemoryKind kKinds[] = {MemoryKind::kHost, MemoryKind::kCuda};

using Bytes = std::vector<uint8_t>;

// What a rank sends in a round: no two messages are alike.
Bytes payload(size_t size, int rank, int round)
{
    Bytes bytes(size);
    for (size_t i = 0; i < size; ++i) {
        bytes[i] = static_cast<uint8_t>(1 + i * 131 + (i >> 8) + rank * 64 + round * 7);
    }
    return bytes;
}

void send(ucptest::Memory& memory, const Bytes& bytes, int to)
{
    memory.store(0, bytes.data(), bytes.size());
    MPI_Send(memory.address(), static_cast<int>(bytes.size()), MPI_BYTE, to, 0, MPI_COMM_WORLD);
}

void receive(ucptest::Memory& memory, const Bytes& expected, int from)
{
    Bytes bytes(expected.size());
    MPI_Recv(memory.address(), static_cast<int>(bytes.size()), MPI_BYTE, from, 0, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    memory.load(bytes.data(), 0, bytes.size());
    for (size_t i = 0; i < bytes.size(); ++i) {
        ucptest::require(bytes[i] == expected[i],
                         ucptest::format("%zu bytes of rank %d into %s memory: byte %zu is %d, "
                                         "not %d",
                                         bytes.size(), from, name(memory.kind()), i, bytes[i],
                                         expected[i]));
    }
}

// Rank 0 serves.
void play(int rank, MemoryKind kind, size_t size)
{
    ucptest::Memory memory(kind, size);
    const int partner = 1 - rank;
    for (int round = 0; round < kRounds; ++round) {
        const Bytes mine = payload(size, rank, round), theirs = payload(size, partner, round);
        if (rank == 0) {
            send(memory, mine, partner);
        }
        receive(memory, theirs, partner);
        if (rank == 1) {
            send(memory, mine, partner);
        }
    }
}

void play_all(int rank)
{
    int ranks;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    ucptest::require(ranks == 2, "mpi_pingpong is for two ranks");
    ucptest::require(ucptest::cuda::available(0), "no CUDA driver with a device");
    for (const MemoryKind first : kKinds) {
        for (const MemoryKind second : kKinds) {
            for (const size_t size : kSizes) {
                play(rank, rank == 0 ? first : second, size);
            }
        }
    }
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    try {
        play_all(rank);
    } catch (const ucptest::Failure& failure) {
        std::fprintf(stderr, "rank %d: FAILED: %s\n", rank, failure.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
