// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_registrations: rank 0 sends the same host buffer to rank 1 again and again, in processes that
// use a GPU; then another one where the first was, whose bytes are to arrive.
#include <cstdio>
#include <cstring>
#include <sys/mman.h>

#include <mpi.h>

#include "gpu.hpp"

namespace {

constexpr int kMessages = 100;
constexpr int kBytes = 1 << 20;

char* map(void* where, int fixed)
{
    void* memory =
        mmap(where, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}

// Whether every message was right.
bool exchange(int rank, char* memory, char byte)
{
    bool right = true;
    for (int i = 0; i < kMessages; ++i, ++byte) {
        std::memset(memory, rank == 0 ? byte : 0, kBytes);
        if (rank == 0) {
            MPI_Send(memory, kBytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        } else {
            MPI_Recv(memory, kBytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        right = right && memory[0] == byte && std::memcmp(memory, memory + 1, kBytes - 1) == 0;
    }
    return right;
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::use();
    bool right = true;
    char* memory = nullptr;
    for (const int fixed : {0, MAP_FIXED}) {
        memory = map(memory, fixed);
        if (memory == nullptr) {
            return 1;
        }
        right = exchange(rank, memory, fixed ? 7 : 1) && right;
        munmap(memory, kBytes);
    }
    std::printf("rank %d %s\n", rank, right ? "right" : "wrong");
    MPI_Finalize();
    return !right;
}
