// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Ping-pong between two GPUs in the order of their streams: a hundred rounds are enqueued ahead of
// time, and the CPU waits once, at the end. MPI carries the addresses and nothing else.
//
//   mpicxx -std=c++20 -O2 -I/usr/local/cuda/include stream.cpp -o stream -lucx-gdr -lucp -lucs -ldl
//   mpirun -n 2 ucx-gdr run ./stream [NUMBERS IN A MESSAGE]
//
// In each round rank 0 fills a buffer of GPU memory with the round's number and sends it; rank 1
// keeps what it got, fills the buffer with the number negated and sends that back.
#include <ucx-gdr/ugdr.h>

#include <string>

#include "gpu.hpp"

namespace {

constexpr int kRounds = 100;
constexpr ucp_tag_t kTag = 1;

void check(ucs_status_t status, const char* what)
{
    if (status != UCS_OK)
        gpu::fail(what, ucs_status_string(status));
}

ucp_worker_h create_worker()
{
    ucp_params_t params = {};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG;
    ucp_context_h context;
    check(ucp_init(&params, nullptr, &context), "ucp_init");
    ucp_worker_params_t worker_params = {};
    worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker_params.thread_mode = UCS_THREAD_MODE_MULTI; // libucx-gdr's thread uses it, too
    ucp_worker_h worker;
    check(ucp_worker_create(context, &worker_params, &worker), "ucp_worker_create");
    return worker;
}

ucp_ep_h connect(ucp_worker_h worker, int peer)
{
    ucp_address_t* own;
    size_t size;
    check(ucp_worker_get_address(worker, &own, &size), "ucp_worker_get_address");
    std::string address(65536, '\0');
    MPI_Sendrecv(own, static_cast<int>(size), MPI_BYTE, peer, 0, address.data(),
                 static_cast<int>(address.size()), MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    ucp_worker_release_address(worker, own);
    ucp_ep_params_t params = {};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    ucp_ep_h ep;
    check(ucp_ep_create(worker, &params, &ep), "ucp_ep_create");
    return ep;
}

// Messages in the order of a stream.
class Stream {
  public:
    explicit Stream(ucp_worker_h worker, ucp_ep_h ep) : ep_(ep)
    {
        GPU_CALL(cuStreamCreate, &stream_, CU_STREAM_NON_BLOCKING);
        ugdr_context_params_t params = {};
        params.field_mask = UGDR_CONTEXT_PARAM_FIELD_WORKER;
        params.worker = worker;
        check(ugdr_context_create(&params, &context_), "ugdr_context_create");
    }
    ~Stream() { check(ugdr_context_destroy(context_, 0), "ugdr_context_destroy"); }

    // When the stream gets here; it goes on when the buffer may be used again.
    void send(int* buffer, size_t bytes)
    {
        at_this_point([&](const ugdr_op_param_t* param) {
            check(ugdr_tag_send(context_, ep_, buffer, bytes, kTag, param, nullptr),
                  "ugdr_tag_send");
        });
    }
    void receive(int* buffer, size_t bytes)
    {
        at_this_point([&](const ugdr_op_param_t* param) {
            check(ugdr_tag_recv(context_, buffer, bytes, kTag, ~ucp_tag_t{0}, param, nullptr),
                  "ugdr_tag_recv");
        });
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
    template <class Operation>
    void at_this_point(Operation&& operation)
    {
        ugdr_condition_params_t point = {};
        point.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY | UGDR_CONDITION_PARAM_FIELD_STREAM;
        point.category = UGDR_CONDITION_STREAM;
        point.stream = stream_;
        ugdr_op_param_t param = {};
        param.field_mask = UGDR_OP_PARAM_FIELD_CONDITION | UGDR_OP_PARAM_FIELD_FLAGS;
        param.flags = UGDR_OP_FLAG_STREAM_WAIT;
        check(ugdr_condition_create(context_, &point, &param.condition), "ugdr_condition_create");
        operation(&param);
        ugdr_condition_destroy(param.condition);
    }

    ucp_ep_h ep_;
    CUstream stream_ = nullptr;
    ugdr_context_h context_ = nullptr;
};

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const long numbers = argc > 1 ? std::atol(argv[1]) : 1024;
    if (ranks != 2 || numbers < 1)
        gpu::fail("usage", "stream [NUMBERS IN A MESSAGE], on two ranks");
    gpu::choose();

    const size_t count = static_cast<size_t>(numbers), bytes = count * sizeof(int);
    ucp_worker_h worker = create_worker();
    ucp_ep_h ep = connect(worker, 1 - rank);
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
