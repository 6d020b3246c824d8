// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_rate host|gpu BYTES WINDOWS: run by contrib/bench-mpi. Rank 0 sends rank 1 so many windows of
// 64 messages of so many bytes of host memory, and prints the nanoseconds that one takes, the least
// of some rounds. gpu: after a message of GPU memory. Exits with 77 where there is no CUDA driver
// for that, with 1 where other bytes arrive.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include <mpi.h>

#include "gpu.hpp"

namespace {

constexpr int kWindow = 64;
constexpr int kRounds = 5;
constexpr int kTag = 1;

int rank;

void send_one(void* buffer)
{
    if (rank == 0) {
        MPI_Send(buffer, 1, MPI_BYTE, 1, kTag, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv(buffer, 1, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

void send_window(std::vector<char>& memory, int bytes)
{
    std::array<MPI_Request, kWindow> requests;
    for (int i = 0; i < kWindow; ++i) {
        char* const buffer = &memory[static_cast<size_t>(i) * bytes];
        if (rank == 0) {
            MPI_Isend(buffer, bytes, MPI_BYTE, 1, kTag, MPI_COMM_WORLD, &requests[i]);
        } else {
            MPI_Irecv(buffer, bytes, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &requests[i]);
        }
    }
    MPI_Waitall(kWindow, requests.data(), MPI_STATUSES_IGNORE);
    char answer = 0;
    if (rank == 0) {
        MPI_Recv(&answer, 1, MPI_BYTE, 1, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(&answer, 1, MPI_BYTE, 0, kTag, MPI_COMM_WORLD);
    }
}

char byte_at(size_t i)
{
    return static_cast<char>(i % 251);
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 4) {
        return 2;
    }
    const int bytes = std::atoi(argv[2]), windows = std::atoi(argv[3]);
    if (std::strcmp(argv[1], "gpu") == 0) {
        gpu::use(rank);
        send_one(gpu::allocate(1));
    }
    std::vector<char> memory(static_cast<size_t>(kWindow) * bytes);
    for (size_t i = 0; rank == 0 && i < memory.size(); ++i) {
        memory[i] = byte_at(i);
    }
    double best = std::numeric_limits<double>::max();
    for (int round = 0; rank < 2 && round < kRounds; ++round) {
        const double start = MPI_Wtime();
        for (int i = 0; i < windows; ++i) {
            send_window(memory, bytes);
        }
        best = std::min(best, MPI_Wtime() - start);
    }
    bool right = true;
    for (size_t i = 0; rank < 2 && i < memory.size(); ++i) {
        right = right && memory[i] == byte_at(i);
    }
    if (rank == 0) {
        std::printf("rate %.2f\n", best / windows / kWindow * 1e9);
    }
    MPI_Finalize();
    return right ? 0 : 1;
}
