// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_threads EXCHANGES ROUNDS: four threads of each rank, with MPI_THREAD_MULTIPLE, reduce few
// and many numbers and exchange columns in GPU memory EXCHANGES times, each on a communicator of
// its own, and read by one window; every element checked; and a thread that waits for the GPU stops
// no other. Then ROUNDS reductions by one thread,
// over which the process must not grow. Exits with 0, with 1 when data are wrong or it grows, with
// 77 without a CUDA driver or threads.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <mpi.h>

#include "gpu.hpp"
#include "growth.hpp"

namespace {

constexpr int kThreads = 4, kCount = 1000;
constexpr int kMany = 100000; // which GPUs reduce where they are asked to
int rank, ranks;
std::atomic<int> wrong{0};

int* allocate(int count)
{
    return static_cast<int*>(gpu::allocate(count * sizeof(int)));
}

void set(int* device, const std::vector<int>& values)
{
    gpu::copy(device, values.data(), values.size() * sizeof(int));
}

std::vector<int> get(int* device, int count)
{
    std::vector<int> values(count);
    gpu::copy(values.data(), device, values.size() * sizeof(int));
    return values;
}

void work(int thread, int exchanges, MPI_Comm comm)
{
    gpu::use(rank);
    int *out = allocate(2 * kCount), *in = allocate(2 * kCount);
    int *many_out = allocate(kMany), *many_in = allocate(kMany);
    MPI_Datatype column;
    MPI_Type_vector(kCount, 1, 2, MPI_INT, &column);
    MPI_Type_commit(&column);
    for (int round = 0; round < exchanges; ++round) {
        const int mine = 1000 * thread + 10 * round + rank;
        set(out, std::vector<int>(2 * kCount, mine));
        set(in, std::vector<int>(2 * kCount, -1));
        MPI_Allreduce(out, in, kCount, MPI_INT, MPI_MAX, comm);
        const std::vector<int> reduced = get(in, kCount);
        for (int value : reduced) {
            wrong += value != mine - rank + ranks - 1;
        }
        set(many_out, std::vector<int>(kMany, mine));
        MPI_Allreduce(many_out, many_in, kMany, MPI_INT, MPI_SUM, comm);
        for (int value : get(many_in, kMany)) {
            wrong += value != (mine - rank) * ranks + ranks * (ranks - 1) / 2;
        }
        MPI_Request requests[2];
        MPI_Irecv(in + 1, 1, column, (rank + ranks - 1) % ranks, thread, comm, &requests[0]);
        MPI_Isend(out, 1, column, (rank + 1) % ranks, thread, comm, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        const std::vector<int> received = get(in, 2 * kCount - 1);
        for (int i = 1; i < 2 * kCount - 1; i += 2) {
            wrong += received[i] != mine - rank + (rank + ranks - 1) % ranks;
        }
    }
    MPI_Type_free(&column);
}

// All threads read by one window, and each synchronises it.
void read_window(int thread, int rounds, MPI_Win window)
{
    gpu::use(rank);
    int* in = allocate(2 * kCount);
    MPI_Datatype column;
    MPI_Type_vector(kCount, 1, 2, MPI_INT, &column);
    MPI_Type_commit(&column);
    const int target = (rank + 1) % ranks;
    for (int round = 0; round < rounds; ++round) {
        set(in, std::vector<int>(2 * kCount, -1));
        MPI_Get(in, 1, column, target, thread, kCount, MPI_INT, window);
        MPI_Win_flush(target, window);
        const std::vector<int> received = get(in, 2 * kCount);
        for (int i = 0; i < kCount; ++i) {
            wrong += received[2 * i] != 10000 * target + thread + i;
        }
    }
    MPI_Type_free(&column);
}

// A type of numbers in GPU memory, at distances that make the GPU pack them by a list; one for each
// index.
class Scattered {
  public:
    explicit Scattered(int index)
    {
        std::vector<int> places(kCount);
        for (int i = 0; i < kCount; ++i) {
            places[i] = 4 * i + ((index + 1) >> (i % 7) & 1);
        }
        MPI_Type_create_indexed_block(kCount, 1, places.data(), MPI_INT, &type_);
        MPI_Type_commit(&type_);
    }
    Scattered(const Scattered&) = delete;
    Scattered& operator=(const Scattered&) = delete;
    ~Scattered() { MPI_Type_free(&type_); }

    void pack(const int* from) const
    {
        std::vector<int> packed(kCount);
        int position = 0;
        MPI_Pack(from, 1, type_, packed.data(), kCount * sizeof(int), &position, MPI_COMM_SELF);
        for (int value : packed) {
            wrong += value != 7;
        }
    }

  private:
    MPI_Datatype type_;
};

// Of the types that a GPU packs as many as it knows are in use, and a stream waits. A thread with
// one more lets it forget one, which frees memory and so waits for the stream. Others, with types
// that it knows, do not; on H100s they did, since while one thread's cuMemFree waits NVIDIA's
// driver has other calls wait along.
void pack_while_a_stream_waits()
{
    constexpr int kKnown = 64;
    int* const from = allocate(4 * kCount + 1);
    set(from, std::vector<int>(4 * kCount + 1, 7));
    for (int i = 0; i < kKnown; ++i) {
        Scattered(i).pack(from);
    }
    const Scattered known(kKnown - 1), another(kKnown);
    gpu::WaitingStream stream;
    std::thread first([&] {
        gpu::use(rank);
        another.pack(from);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::promise<void> packed;
    std::thread second([&] {
        gpu::use(rank);
        known.pack(from);
        packed.set_value(); // a thread that ends frees what it has kept
    });
    if (packed.get_future().wait_for(std::chrono::seconds(5)) != std::future_status::ready) {
        std::printf("a thread waits for another one\n");
        ++wrong;
    }
    stream.release();
    first.join();
    second.join();
}

template <class Work>
void in_threads(Work work)
{
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back(work, i);
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

// Both halves do the same; what the first needs is there for the second. (Open MPI 4.1.4 itself
// grows by 800 bytes for each MPI_Iallreduce, on host memory and without us.)
void stay_small(int rounds)
{
    if (rounds == 0) {
        return;
    }
    int *out = allocate(kCount), *in = allocate(kCount);
    set(out, std::vector<int>(kCount, 1));
    const long grown = Growth::in_second_half(rounds, [&] {
                           MPI_Allreduce(out, in, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
                       }).kib();
    std::printf("rank %d: %ld KiB more after %d reductions\n", rank, grown, rounds - rounds / 2);
    if (grown > 256) {
        ++wrong;
    }
}

} // namespace

int main(int argc, char** argv)
{
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    gpu::use(rank);
    if (provided == MPI_THREAD_MULTIPLE) {
        const int exchanges = std::atoi(argv[1]);
        MPI_Comm comms[kThreads];
        for (MPI_Comm& comm : comms) {
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        }
        in_threads([&](int thread) { work(thread, exchanges, comms[thread]); });
        std::vector<int> numbers(kCount + kThreads);
        for (int i = 0; i < kCount + kThreads; ++i) {
            numbers[i] = 10000 * rank + i;
        }
        MPI_Win window;
        MPI_Win_create(numbers.data(), numbers.size() * sizeof(int), sizeof(int), MPI_INFO_NULL,
                       MPI_COMM_WORLD, &window);
        MPI_Win_lock_all(0, window);
        in_threads([&](int thread) { read_window(thread, 10 * exchanges, window); });
        MPI_Win_unlock_all(window);
        MPI_Win_free(&window);
        if (gpu::emulated()) {
            pack_while_a_stream_waits();
        }
    }
    stay_small(std::atoi(argv[2]));
    std::printf("rank %d: %d wrong\n", rank, wrong.load());
    MPI_Finalize();
    if (wrong != 0) {
        return 1;
    }
    return provided == MPI_THREAD_MULTIPLE ? 0 : 77;
}
