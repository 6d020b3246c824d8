// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_short_sends [LIBRARY]: messages of 8 bytes between all ranks, of host memory, and then from
// and into a GPU's, with a line after each part. With a library, in between, its function
// send_from(memory): 0 where 8 bytes of GPU memory have been sent by a UCX context of its own.
// Exits with 1 where other bytes arrive, with 77 without a CUDA driver.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>
#include <mpi.h>

#include "gpu.hpp"

namespace {

constexpr int kMessages = 100;

bool exchange(uint64_t* sent, uint64_t* received, bool on_gpu)
{
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int to = (rank + 1) % size, from = (rank + size - 1) % size;
    bool right = true;
    for (uint64_t i = 0; i < kMessages; ++i) {
        const uint64_t mine = i * size + rank, wanted = i * size + from;
        uint64_t came = 0;
        MPI_Request requests[2];
        on_gpu ? gpu::copy(sent, &mine, sizeof(mine)) : void(*sent = mine);
        MPI_Irecv(received, 1, MPI_UINT64_T, from, 5, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(sent, 1, MPI_UINT64_T, to, 5, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        on_gpu ? gpu::copy(&came, received, sizeof(came)) : void(came = *received);
        right = right && came == wanted;
    }
    std::printf("%s memory: %s\n", on_gpu ? "GPU" : "host", right ? "right" : "WRONG");
    std::fflush(stdout);
    return right;
}

bool send_by(const char* library, const void* memory)
{
    void* const handle = dlopen(library, RTLD_NOW);
    auto* const send_from = reinterpret_cast<int (*)(const void*)>(
        handle == nullptr ? nullptr : dlsym(handle, "send_from"));
    const int result = send_from == nullptr ? -1 : send_from(memory);
    std::printf("own context: %d\n", result);
    std::fflush(stdout);
    return result == 0;
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    uint64_t sent = 0, received = 0;
    bool right = exchange(&sent, &received, false);
    gpu::use();
    auto* const memory = static_cast<uint64_t*>(gpu::allocate(2 * sizeof(uint64_t)));
    if (argc > 1)
        right = send_by(argv[1], memory) && right;
    right = exchange(&memory[0], &memory[1], true) && right;
    right = exchange(&sent, &received, false) && right;
    gpu::free(memory);
    MPI_Finalize();
    return right ? 0 : 1;
}
