// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_cost host|gpu [CALLS]: one rank makes kCalls calls of each of several kinds, on host memory,
// that need no transport; with gpu, in a process that has given MPI memory of one. For callgrind,
// which is to count the instructions of the functions measured_CALL alone; with CALLS, so many of
// each, for strace. mpi_cost staged|fetched [CALLS]: the same with one kind on GPU memory,
// measured_staged, which goes between the ranks where there are several; or one that reads both its
// buffers. Exits with 77 without a CUDA driver. mpi_cost messages host|gpu BYTES: one rank sends
// itself kCalls windows of kWindow messages of so many bytes of host memory: measured_messages, as
// a test of the message rate does. Exits with 1 where other bytes arrive.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <mpi.h>
#include <sys/mman.h>

#include "gpu.hpp"

namespace {

constexpr int kCalls = 1000; // cost_test.sh divides by it
constexpr int kWindow = 64;  // and by this
constexpr int kLongest = 1024;

double variables[2];
double *const out = &variables[0], *const in = &variables[1];

double* staged = nullptr; // on the GPU
double* heap = nullptr;   // valgrind hides it: there it is a page like any other
double* mapped = nullptr;

int message_bytes = 0;
char sent[kWindow * kLongest], received[sizeof(sent)];

int send_one(const double* number)
{
    return MPI_Send(number, 1, MPI_DOUBLE, MPI_PROC_NULL, 7, MPI_COMM_WORLD);
}

void send_window()
{
    MPI_Request requests[2 * kWindow];
    for (int i = 0; i < kWindow; ++i) {
        MPI_Irecv(&received[i * message_bytes], message_bytes, MPI_BYTE, 0, 7, MPI_COMM_SELF,
                  &requests[i]);
    }
    for (int i = 0; i < kWindow; ++i) {
        MPI_Isend(&sent[i * message_bytes], message_bytes, MPI_BYTE, 0, 7, MPI_COMM_SELF,
                  &requests[kWindow + i]);
    }
    MPI_Waitall(2 * kWindow, requests, MPI_STATUSES_IGNORE);
}

} // namespace

#define MEASURE(call, ...)                                                                         \
    [[gnu::noinline]] static void make_##call(int calls)                                           \
    {                                                                                              \
        for (int i = 0; i < calls; ++i)                                                            \
            __VA_ARGS__;                                                                           \
    }                                                                                              \
    extern "C" [[gnu::noinline]] void measured_##call()                                            \
    {                                                                                              \
        make_##call(kCalls);                                                                       \
    }

MEASURE(Send, send_one(out))
MEASURE(Send_from_stack, {
    const double number = 0;
    send_one(&number);
})
MEASURE(Send_from_heap, send_one(heap))
MEASURE(Send_from_mapping, send_one(mapped))
MEASURE(Recv, MPI_Recv(in, 1, MPI_DOUBLE, MPI_PROC_NULL, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE))
MEASURE(Sendrecv, MPI_Sendrecv(out, 1, MPI_DOUBLE, MPI_PROC_NULL, 7, in, 1, MPI_DOUBLE,
                               MPI_PROC_NULL, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE))
MEASURE(Allreduce, MPI_Allreduce(out, in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF))
MEASURE(staged, MPI_Allreduce(&staged[0], &staged[1], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD))
MEASURE(fetched, MPI_Reduce_local(&staged[0], &staged[1], 1, MPI_DOUBLE, MPI_SUM))
MEASURE(messages, send_window())
MEASURE(Isend_Wait, {
    MPI_Request request;
    MPI_Isend(out, 1, MPI_DOUBLE, MPI_PROC_NULL, 7, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
})

namespace {

struct Kind {
    void (*make)(int calls);
    void (*measured)();
};

constexpr Kind kKinds[] = {
    {make_Send, measured_Send},
    {make_Send_from_stack, measured_Send_from_stack},
    {make_Send_from_heap, measured_Send_from_heap},
    {make_Send_from_mapping, measured_Send_from_mapping},
    {make_Recv, measured_Recv},
    {make_Sendrecv, measured_Sendrecv},
    {make_Allreduce, measured_Allreduce},
    {make_Isend_Wait, measured_Isend_Wait},
};

void use(const char* processor)
{
    if (std::strcmp(processor, "gpu") != 0) {
        return;
    }
    gpu::use();
    MPI_Send(gpu::allocate(4096), 1, MPI_DOUBLE, MPI_PROC_NULL, 7, MPI_COMM_WORLD);
}

// calls: NULL where they are measured.
void make(const Kind& kind, const char* calls)
{
    kind.make(1); // what is looked up once
    if (calls != nullptr) {
        kind.make(std::atoi(calls));
    } else {
        kind.measured();
    }
}

// Whether all of them arrived.
bool send_messages(const char* processor, const char* bytes)
{
    use(processor);
    message_bytes = std::min(std::atoi(bytes), kLongest);
    for (size_t i = 0; i < sizeof(sent); ++i) {
        sent[i] = static_cast<char>(i % 251);
    }
    make({make_messages, measured_messages}, nullptr);
    return std::memcmp(received, sent, static_cast<size_t>(kWindow) * message_bytes) == 0;
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    if (argc < 2) {
        return 2;
    }
    const bool fetched = std::strcmp(argv[1], "fetched") == 0;
    if (fetched || std::strcmp(argv[1], "staged") == 0) {
        gpu::use();
        staged = static_cast<double*>(gpu::allocate(2 * sizeof(double)));
        make(fetched ? Kind{make_fetched, measured_fetched} : Kind{make_staged, measured_staged},
             argv[2]);
        MPI_Finalize();
        return 0;
    }
    if (std::strcmp(argv[1], "messages") == 0) {
        const bool right = send_messages(argv[2], argv[3]);
        MPI_Finalize();
        return right ? 0 : 1;
    }
    use(argv[1]);
    heap = static_cast<double*>(std::malloc(sizeof(double)));
    mapped = static_cast<double*>(
        mmap(nullptr, sizeof(double), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (const Kind& kind : kKinds) {
        make(kind, argv[2]);
    }
    std::free(heap);
    MPI_Finalize();
    return 0;
}
