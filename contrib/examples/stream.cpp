// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Ping-pong between two GPUs in the order of their streams: a hundred rounds are enqueued ahead of
// time, and the CPU waits once, at the end. MPI carries the addresses and nothing else.
//
//   mpicxx -std=c++20 -O2 -I$CUDA_HOME/include stream.cpp -o stream -lucx-gdr -lucp -lucs -ldl
//   mpirun -n 2 ucx-gdr run ./stream [NUMBERS IN A MESSAGE]
//
// In each round rank 0 fills a buffer of GPU memory with the round's number and sends it; rank 1
// keeps what it got, fills the buffer with the number negated and sends that back.
#include "ucp.hpp"

namespace {

constexpr int kRounds = 100;
constexpr ucp_tag_t kTag = 1;

// Messages in the order of a stream.
class Stream {
  public:
    Stream(ucp_worker_h worker, ucp_ep_h ep) : ep_(ep), context_(worker)
    {
        GPU_CALL(cuStreamCreate, &stream_, CU_STREAM_NON_BLOCKING);
    }

    // When the stream gets here; it goes on when the buffer may be used again.
    void send(int* buffer, size_t bytes)
    {
        const ucp::Point here(context_, stream_);
        const ugdr_op_param_t param = here.param(UGDR_OP_FLAG_STREAM_WAIT);
        ucp::check(ugdr_tag_send(context_, ep_, buffer, bytes, kTag, &param, nullptr),
                   "ugdr_tag_send");
    }
    void receive(int* buffer, size_t bytes)
    {
        const ucp::Point here(context_, stream_);
        const ugdr_op_param_t param = here.param(UGDR_OP_FLAG_STREAM_WAIT);
        ucp::check(ugdr_tag_recv(context_, buffer, bytes, kTag, ~ucp_tag_t{0}, &param, nullptr),
                   "ugdr_tag_recv");
    }
    void fill(int* buffer, int value, size_t count)
    {
        GPU_CALL(cuMemsetD32Async, reinterpret_cast<CUdeviceptr>(buffer),
                 static_cast<unsigned>(value), count, stream_);
    }
    void copy(int* to, int* from, size_t count)
    {
        GPU_CALL(cuMemcpyAsync, reinterpret_cast<CUdeviceptr>(to),
                 reinterpret_cast<CUdeviceptr>(from), count * sizeof(int), stream_);
    }
    void synchronize() { GPU_CALL(cuStreamSynchronize, stream_); }

  private:
    const ucp_ep_h ep_;
    const ucp::Context context_;
    CUstream stream_ = nullptr;
};

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const long numbers = argc > 1 ? std::atol(argv[1]) : 1024;
    if (ranks != 2 || numbers < 1) {
        gpu::fail("usage", "stream [NUMBERS IN A MESSAGE], on two ranks");
    }
    gpu::choose();

    const size_t count = static_cast<size_t>(numbers), bytes = count * sizeof(int);
    ucp_worker_h worker = ucp::create_worker();
    ucp_ep_h ep = ucp::connect(worker, 1 - rank);
    gpu::Buffer<int> buffer(count), received(count * kRounds);
    int wrong = 0;
    {
        Stream stream(worker, ep);
        for (int round = 1; round <= kRounds; ++round) {
            int* keep = received.data() + static_cast<size_t>(round - 1) * count;
            if (rank == 0) {
                stream.fill(buffer.data(), round, count);
                stream.send(buffer.data(), bytes);
                stream.receive(buffer.data(), bytes);
                stream.copy(keep, buffer.data(), count);
            } else {
                stream.receive(buffer.data(), bytes);
                stream.copy(keep, buffer.data(), count);
                stream.fill(buffer.data(), -round, count);
                stream.send(buffer.data(), bytes);
            }
        }
        stream.synchronize();
    }
    const std::vector<int> all = received.get(count * kRounds);
    for (size_t i = 0; i < all.size(); ++i) {
        const int round = static_cast<int>(i / count) + 1;
        wrong += all[i] != (rank == 0 ? -round : round);
    }
    std::printf("rank %d: %d rounds of %ld numbers, %d wrong\n", rank, kRounds, numbers, wrong);
    MPI_Finalize();
    return wrong > 0 ? 1 : 0;
}
