// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_late: a program that calls MPI with host memory, and uses CUDA later or never. Until it does
// CUDA is not initialised, and no GPU has a context that the program did not make. On the emulated
// driver alone, which counts. Exits with 1 where something is wrong.
//
//   mpi_late never     CUDA is never used
//   mpi_late fork      by a forked child
//   mpi_late visible   once each rank has set CUDA_VISIBLE_DEVICES to another GPU
//   mpi_late second    on the second GPU
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.hpp"

namespace {

constexpr int kNumbers = 100000;

[[noreturn]] void fail(const char* what)
{
    std::fprintf(stderr, "WRONG: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::abort();
}

void require(bool condition, const char* what)
{
    if (!condition) {
        fail(what);
    }
}

int rank_of_this()
{
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

uint64_t contexts(int device)
{
    return gpu::driver<uint64_t (*)(int)>("softcuda_contexts")(device);
}

// With buffers of the host's or of a GPU's.
void call(bool on_gpu)
{
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int rank = rank_of_this(), next = (rank + 1) % size, last = (rank + size - 1) % size;
    for (const int count : {1, kNumbers}) {
        const size_t length = static_cast<size_t>(count) * sizeof(int);
        std::vector<int> mine(count, rank), all(count, 0);
        void* const from = on_gpu ? gpu::allocate(length) : mine.data();
        void* const to = on_gpu ? gpu::allocate(length) : all.data();
        const auto received = [&] {
            if (on_gpu) {
                gpu::copy(all.data(), to, length);
            }
            return all;
        };
        if (on_gpu) {
            gpu::copy(from, mine.data(), length);
        }
        MPI_Allreduce(from, to, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        require(received() == std::vector<int>(count, size * (size - 1) / 2), "MPI_Allreduce");
        MPI_Sendrecv(from, count, MPI_INT, next, 0, to, count, MPI_INT, last, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        require(received() == std::vector<int>(count, last), "MPI_Sendrecv");
        MPI_Win window;
        MPI_Win_create(to, static_cast<MPI_Aint>(length), sizeof(int), MPI_INFO_NULL,
                       MPI_COMM_WORLD, &window);
        MPI_Win_fence(0, window);
        MPI_Put(from, count, MPI_INT, last, 0, count, MPI_INT, window);
        MPI_Win_fence(0, window);
        MPI_Win_free(&window);
        require(received() == std::vector<int>(count, next), "MPI_Put");
        if (on_gpu) {
            gpu::free(from);
            gpu::free(to);
        }
    }
}

void require_untouched()
{
    const auto calls = gpu::driver<uint64_t (*)(const char*)>("softcuda_call_count");
    require(calls("cuInit") == 0, "CUDA was initialised");
    require(contexts(0) == 0 && contexts(1) == 0, "there is a context");
}

void use_in_child()
{
    const pid_t child = fork();
    if (child == 0) {
        gpu::use();
        gpu::free(gpu::allocate(kNumbers));
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child could not use CUDA");
}

// On that GPU of the machine, with the other one left alone.
void use(int number, int ordinal)
{
    gpu::use(ordinal);
    call(true);
    require(contexts(number) == 1 && contexts(1 - number) == 0,
            "there is a context that the program did not make");
}

} // namespace

int main(int argc, char** argv)
{
    const std::string when = argc > 1 ? argv[1] : "never";
    MPI_Init(&argc, &argv);
    call(false);
    require_untouched();
    if (when == "fork") {
        use_in_child();
        call(false);
        require_untouched();
    } else if (when == "visible") {
        const int number = (rank_of_this() + 1) % 2;
        setenv("CUDA_VISIBLE_DEVICES", std::to_string(number).c_str(), 1);
        use(number, 0);
    } else if (when == "second") {
        use(1, 1);
    }
    MPI_Finalize();
    std::printf("right\n");
}
