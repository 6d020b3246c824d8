// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Latency and bandwidth of MPI messages between two memories: GPU to GPU, host to GPU, GPU to host
// and host to host. Each rank of the first half sends to one of the second half; of several pairs
// the latencies are averaged and the bandwidths added up. What arrives is checked.
//
//   mpicxx -std=c++20 -O2 -I$CUDA_HOME/include pair.cpp -o pair -ldl
//   mpirun -n 2 ucx-gdr run ./pair [LARGEST SIZE IN BYTES]
//
// Latency: half of a round trip of one message; the answer goes from the receiver's memory to the
// sender's. Bandwidth: windows of messages on their way at the same time, each window answered by
// one small message.
#include <algorithm>
#include <memory>
#include <utility>

#include "gpu.hpp"

namespace {

constexpr int kWindow = 32;

int rank, ranks, peer;
bool sends; // this rank is of the first half

// Bytes in host or GPU memory.
class Memory {
  public:
    Memory(bool on_gpu, size_t size)
    {
        if (on_gpu) {
            gpu_ = std::make_unique<gpu::Buffer<char>>(size);
        } else {
            host_.resize(size);
        }
    }
    char* data() { return gpu_ ? gpu_->data() : host_.data(); }

    // The first bytes of it.
    void fill(char value, size_t bytes)
    {
        const std::vector<char> values(bytes, value);
        if (gpu_) {
            gpu_->set(values);
        } else {
            std::copy(values.begin(), values.end(), host_.begin());
        }
    }
    bool holds(char value, size_t bytes) const
    {
        const std::vector<char> values = gpu_ ? gpu_->get(bytes) : host_;
        return std::all_of(values.begin(), values.begin() + static_cast<ptrdiff_t>(bytes),
                           [value](char byte) { return byte == value; });
    }

  private:
    std::vector<char> host_;
    std::unique_ptr<gpu::Buffer<char>> gpu_;
};

void send(char* data, int size)
{
    MPI_Send(data, size, MPI_CHAR, peer, 1, MPI_COMM_WORLD);
}
void receive(char* data, int size)
{
    MPI_Recv(data, size, MPI_CHAR, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// Seconds a repetition, after some that do not count.
template <class Function>
double time(int repetitions, Function repeated)
{
    double start = 0;
    for (int i = -(repetitions / 10 + 1); i < repetitions; ++i) {
        if (i == 0) {
            MPI_Barrier(MPI_COMM_WORLD);
            start = MPI_Wtime();
        }
        repeated();
    }
    return (MPI_Wtime() - start) / repetitions;
}

double latency(char* data, int size, int repetitions)
{
    return time(repetitions,
                [&] {
                    sends ? send(data, size) : receive(data, size);
                    sends ? receive(data, size) : send(data, size);
                }) /
           2;
}

// Bytes per second.
double bandwidth(char* data, int size, int repetitions)
{
    MPI_Request requests[kWindow];
    char answer = 0;
    return size * kWindow / time(repetitions, [&] {
               for (MPI_Request& request : requests) {
                   char* message = data + (&request - requests) * size;
                   if (sends) {
                       MPI_Isend(message, size, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &request);
                   } else {
                       MPI_Irecv(message, size, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &request);
                   }
               }
               MPI_Waitall(kWindow, requests, MPI_STATUSES_IGNORE);
               sends ? receive(&answer, 1) : send(&answer, 1);
           });
}

double sum_of_ranks(double mine)
{
    double sum = 0;
    MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    return sum;
}

// Returns how many buffers were wrong.
int section(bool from_gpu, bool to_gpu, int largest)
{
    const auto name = [](bool on_gpu) { return on_gpu ? "GPU" : "host"; };
    if (rank == 0) {
        std::printf("\n%s to %s\n%10s %14s %18s\n", name(from_gpu), name(to_gpu), "bytes",
                    "latency [us]", "bandwidth [MB/s]");
    }
    Memory memory(sends ? from_gpu : to_gpu, static_cast<size_t>(largest) * kWindow);
    int wrong = 0;
    for (int size = 1; size <= largest; size *= 4) {
        const int repetitions = size <= 65536 ? 100 : 10;
        const size_t window = static_cast<size_t>(size) * kWindow;
        const char mark = static_cast<char>('a' + size % 25);
        memory.fill(sends ? mark : '-', window);
        const double seconds = sum_of_ranks(latency(memory.data(), size, repetitions)) / ranks;
        wrong += !memory.holds(mark, static_cast<size_t>(size));
        memory.fill(sends ? mark : '-', window);
        const double rate = sum_of_ranks(bandwidth(memory.data(), size, repetitions)) / 2;
        wrong += !memory.holds(mark, window);
        if (rank == 0) {
            std::printf("%10d %14.2f %18.4f\n", size, seconds * 1e6, rate / 1e6);
        }
    }
    return wrong;
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int largest = argc > 1 ? std::atoi(argv[1]) : 4 << 20;
    if (ranks % 2 != 0 || largest < 1 || largest > 1 << 24) {
        gpu::fail("usage", "pair [LARGEST SIZE, at most 16 MiB], on an even number of ranks");
    }
    sends = rank < ranks / 2;
    peer = (rank + ranks / 2) % ranks;
    gpu::choose();

    int wrong = 0;
    for (const auto& [from_gpu, to_gpu] :
         {std::pair(true, true), {false, true}, {true, false}, {false, false}}) {
        wrong += section(from_gpu, to_gpu, largest);
    }
    const double all_wrong = sum_of_ranks(wrong);
    if (rank == 0 && all_wrong > 0) {
        std::printf("FAILED: %.0f buffers did not hold what was sent\n", all_wrong);
    }
    MPI_Finalize();
    return rank == 0 && all_wrong > 0 ? 1 : 0;
}
