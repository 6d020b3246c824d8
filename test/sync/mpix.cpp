// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// MPI on streams (mpix.h), with any MPI, on an even number of ranks. Each case that is named prints
// a line; without one, all. The process ends with 1 at the first thing that is wrong.
//
//   mpix host|cuda|single|none [CASE]...
//
// host, cuda: where the buffers are. single: MPI without threads; none: no GPU: that is refused.
#include "sync/ucx-gdr/mpix.h"
#include "sync/ucx-gdr/mpix_device.cuh"

#include "emu/softcuda/softcuda.h"
#include "mpi/gpu.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::printf("rank %d, line %d: %s\n", rank, __LINE__, #condition);                     \
            std::fflush(stdout);                                                                   \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (false)
#define CHECK_MPI(call) CHECK((call) == MPI_SUCCESS)
#define CUDA(function, ...) gpu::check(gpu::driver<decltype(&(function))>(#function)(__VA_ARGS__))

// In mpix_unit.c, which C compiles.
extern "C" int send_in_c(const int* number, int to, MPI_Comm comm);

namespace {

int rank, ranks;
bool on_gpu;

// Numbers in the memory that is tried.
class Numbers {
  public:
    explicit Numbers(size_t count, int value = 0)
        : bytes_(std::vector<char>(count * sizeof(int)), on_gpu), count_(count)
    {
        set(std::vector<int>(count, value));
    }
    int* data() { return static_cast<int*>(bytes_.data()); }
    void set(const std::vector<int>& values)
    {
        gpu::copy(data(), values.data(), values.size() * sizeof(int));
    }
    std::vector<int> get()
    {
        std::vector<int> values(count_);
        gpu::copy(values.data(), data(), count_ * sizeof(int));
        return values;
    }

  private:
    gpu::Bytes bytes_;
    const size_t count_;
};

// A communicator with a stream of CUDA that waits until release(), if it is told to.
class Stream {
  public:
    explicit Stream(bool waits = false)
    {
        if (waits) {
            waiting_ = std::make_unique<gpu::WaitingStream>();
            cuda_ = waiting_->get();
        } else {
            // One that the legacy default stream would wait for.
            CUDA(cuStreamCreate, &cuda_, CU_STREAM_DEFAULT);
        }
        MPI_Info info;
        MPI_Info_create(&info);
        MPI_Info_set(info, "type", "cudaStream_t");
        CHECK_MPI(MPIX_Info_set_hex(info, "value", &cuda_, sizeof(cuda_)));
        CHECK_MPI(MPIX_Stream_create(info, &stream_));
        MPI_Info_free(&info);
        CHECK_MPI(MPIX_Stream_comm_create(MPI_COMM_WORLD, stream_, &comm_));
    }
    ~Stream()
    {
        MPI_Comm_free(&comm_);
        if (stream_ != MPIX_STREAM_NULL) {
            CHECK_MPI(MPIX_Stream_free(&stream_));
        }
    }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    void release() { waiting_->release(); }
    void synchronize() const { CUDA(cuStreamSynchronize, cuda_); }
    int free() { return MPIX_Stream_free(&stream_); }
    MPIX_Stream mpi() const { return stream_; }
    MPI_Comm comm() const { return comm_; }
    CUstream cuda() const { return cuda_; }

    void fill(Numbers& numbers, int value, size_t count) const
    {
        if (on_gpu) {
            CUDA(cuMemsetD32Async, reinterpret_cast<CUdeviceptr>(numbers.data()),
                 static_cast<unsigned>(value), count, cuda_);
        } else {
            auto* const filling = new Filling{numbers.data(), value, count};
            CUDA(cuLaunchHostFunc, cuda_, Filling::run, filling);
        }
    }

    void copy(Numbers& to, Numbers& from, size_t count, size_t at = 0) const
    {
        if (on_gpu) {
            CUDA(cuMemcpyAsync, reinterpret_cast<CUdeviceptr>(to.data() + at),
                 reinterpret_cast<CUdeviceptr>(from.data()), count * sizeof(int), cuda_);
        } else { // a copy within host memory may wait for the stream
            auto* const copying = new Copying{to.data() + at, from.data(), count};
            CUDA(cuLaunchHostFunc, cuda_, Copying::run, copying);
        }
    }

  private:
    struct Filling { // stays: a graph runs it again
        int* to;
        int value;
        size_t count;
        static void run(void* self)
        {
            const auto& filling = *static_cast<Filling*>(self);
            std::fill(filling.to, filling.to + filling.count, filling.value);
        }
    };

    struct Copying {
        int* to;
        const int* from;
        size_t count;
        static void run(void* self)
        {
            const auto& copying = *static_cast<Copying*>(self);
            std::copy_n(copying.from, copying.count, copying.to);
        }
    };

    std::unique_ptr<gpu::WaitingStream> waiting_;
    CUstream cuda_ = nullptr;
    MPIX_Stream stream_ = MPIX_STREAM_NULL;
    MPI_Comm comm_ = MPI_COMM_NULL;
};

int right()
{
    return (rank + 1) % ranks;
}
int left()
{
    return (rank + ranks - 1) % ranks;
}

// As MPI_Wait, and leaves MPI's lock to the library's thread in between, which a thread that waits
// in MPI hardly does.
MPI_Status wait(MPI_Request& request)
{
    MPI_Status status;
    int done = 0;
    while (!done) {
        CHECK_MPI(MPI_Test(&request, &done, &status));
        std::this_thread::yield();
    }
    return status;
}

int receive(int tag, MPI_Comm comm)
{
    int value = -1;
    MPI_Request request;
    CHECK_MPI(MPI_Irecv(&value, 1, MPI_INT, left(), tag, comm, &request));
    wait(request);
    return value;
}

void barrier()
{
    MPI_Request request;
    CHECK_MPI(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    wait(request);
}

// A thousand sends of a stream come in their order, and none before the stream gets there.
void order()
{
    constexpr int kSends = 1000;
    Stream stream(true);
    Numbers out(kSends);
    std::vector<int> values(kSends);
    std::iota(values.begin(), values.end(), 1000 * rank);
    out.set(values);
    std::vector<MPI_Request> requests(kSends);
    for (int i = 0; i < kSends; ++i) {
        CHECK_MPI(MPIX_Isend_enqueue(out.data() + i, 1, MPI_INT, right(), 7, stream.comm(),
                                     &requests[i]));
    }
    CHECK_MPI(MPIX_Waitall_enqueue(kSends, requests.data(), MPI_STATUSES_IGNORE));
    for (MPI_Request request : requests) {
        CHECK(request == MPI_REQUEST_NULL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    barrier();
    int arrived = 1;
    CHECK_MPI(MPI_Iprobe(left(), 7, stream.comm(), &arrived, MPI_STATUS_IGNORE));
    CHECK(arrived == 0);
    barrier();
    stream.release();
    for (int i = 0; i < kSends; ++i) {
        CHECK(receive(7, stream.comm()) == 1000 * left() + i);
    }
    stream.synchronize();
}

// What the stream wrote before goes out, what comes is there for what the stream does then, and a
// buffer may be written again at once. Even ranks begin.
void blocking()
{
    Stream stream;
    for (int count : {0, 1, 1000, 300000}) {
        constexpr int kRounds = 5;
        const size_t size = static_cast<size_t>(std::max(count, 1));
        Numbers out(size), in(size), kept(size * kRounds);
        std::vector<MPI_Status> statuses(kRounds);
        for (int round = 0; round < kRounds; ++round) {
            for (bool sends : {rank % 2 == 0, rank % 2 == 1}) {
                if (sends) {
                    stream.fill(out, 100 * round + rank, size);
                    CHECK_MPI(MPIX_Send_enqueue(out.data(), count, MPI_INT, right(), round,
                                                stream.comm()));
                    stream.fill(out, -1, size);
                } else {
                    CHECK_MPI(MPIX_Recv_enqueue(in.data(), count, MPI_INT, left(), round,
                                                stream.comm(), &statuses[round]));
                    stream.copy(kept, in, size, round * size);
                }
            }
        }
        stream.synchronize();
        const std::vector<int> all = kept.get();
        for (int round = 0; round < kRounds; ++round) {
            int got = -1;
            MPI_Get_count(&statuses[round], MPI_INT, &got);
            CHECK(got == count && statuses[round].MPI_SOURCE == left() &&
                  statuses[round].MPI_TAG == round && statuses[round].MPI_ERROR == MPI_SUCCESS);
            for (int i = 0; i < count; ++i) {
                CHECK(all[round * size + i] == 100 * round + left());
            }
        }
    }
}

// Requests: for the stream, and for the CPU.
void requests()
{
    constexpr int kCount = 5000;
    Stream stream(true);
    Numbers out(kCount, rank), in(kCount), kept(kCount), late(kCount);
    MPI_Request both[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[3];
    CHECK_MPI(MPIX_Irecv_enqueue(in.data(), kCount, MPI_INT, left(), 1, stream.comm(), &both[0]));
    CHECK_MPI(MPIX_Isend_enqueue(out.data(), kCount, MPI_INT, right(), 1, stream.comm(), &both[2]));
    MPI_Request receive_late, send;
    CHECK_MPI(
        MPIX_Irecv_enqueue(late.data(), kCount, MPI_INT, left(), 2, stream.comm(), &receive_late));
    CHECK_MPI(MPIX_Isend_enqueue(out.data(), 10, MPI_INT, right(), 2, stream.comm(), &send));
    int done = 1;
    CHECK_MPI(MPI_Test(&receive_late, &done, MPI_STATUS_IGNORE));
    CHECK(done == 0);
    CHECK_MPI(MPIX_Waitall_enqueue(3, both, statuses));
    stream.copy(kept, in, kCount);
    stream.release();
    int got = 0;
    const MPI_Status status = wait(receive_late);
    MPI_Get_count(&status, MPI_INT, &got);
    CHECK(got == 10 && status.MPI_SOURCE == left() && status.MPI_TAG == 2);
    CHECK_MPI(MPI_Wait(&send, MPI_STATUS_IGNORE));
    CHECK(receive_late == MPI_REQUEST_NULL && send == MPI_REQUEST_NULL);
    stream.synchronize();
    CHECK(kept.get() == std::vector<int>(kCount, left()));
    CHECK(statuses[0].MPI_SOURCE == left() && statuses[0].MPI_TAG == 1);

    // Complete before the stream is told to wait for it.
    MPI_Request sent;
    CHECK_MPI(MPIX_Isend_enqueue(out.data(), 1, MPI_INT, right(), 3, stream.comm(), &sent));
    CHECK(receive(3, stream.comm()) == left());
    for (done = 0; !done;) {
        CHECK_MPI(MPI_Request_get_status(sent, &done, MPI_STATUS_IGNORE));
        std::this_thread::yield();
    }
    CHECK_MPI(MPIX_Wait_enqueue(&sent, MPI_STATUS_IGNORE));
    CHECK_MPI(MPIX_Wait_enqueue(&sent, MPI_STATUS_IGNORE)); // of none
    stream.synchronize();
}

// The type is the program's to free at once; what is enqueued is complete before a communicator or
// a stream is freed.
void lifetimes()
{
    std::vector<int> out{1, 2, 3, 4}, in(4, 0);
    gpu::Bytes keep({}, false);
    {
        Stream stream;
        CHECK(stream.mpi() != MPIX_STREAM_NULL);
        MPIX_Stream found = MPIX_STREAM_NULL;
        CHECK_MPI(MPIX_Comm_get_stream(stream.comm(), 0, &found));
        CHECK(found == stream.mpi());
        CHECK_MPI(MPIX_Comm_get_stream(MPI_COMM_WORLD, 0, &found));
        CHECK(found == MPIX_STREAM_NULL);
        MPI_Datatype every_other;
        MPI_Type_vector(2, 1, 2, MPI_INT, &every_other);
        MPI_Type_commit(&every_other);
        MPI_Request request;
        CHECK_MPI(
            MPIX_Isend_enqueue(out.data(), 1, every_other, right(), 0, stream.comm(), &request));
        CHECK_MPI(MPIX_Recv_enqueue(in.data(), 1, every_other, left(), 0, stream.comm(),
                                    MPI_STATUS_IGNORE));
        CHECK_MPI(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE));
        MPI_Type_free(&every_other);
        CHECK_MPI(stream.free());
        CHECK((in == std::vector<int>{1, 0, 3, 0}));
        CHECK_MPI(MPIX_Isend_enqueue(out.data(), 4, MPI_INT, right(), 0, stream.comm(), &request));
        CHECK_MPI(
            MPIX_Recv_enqueue(in.data(), 4, MPI_INT, left(), 0, stream.comm(), MPI_STATUS_IGNORE));
        CHECK_MPI(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE));
    }
    CHECK(in == out);
}

void allreduce()
{
    Stream stream;
    for (int count : {1, 1000, 100000}) {
        Numbers out(count), in(count), place(count);
        for (int round = 1; round <= 3; ++round) {
            stream.fill(out, round * (rank + 1), count);
            stream.fill(place, rank, count);
            CHECK_MPI(MPIX_Allreduce_enqueue(out.data(), in.data(), count, MPI_INT, MPI_SUM,
                                             stream.comm()));
            CHECK_MPI(MPIX_Allreduce_enqueue(MPI_IN_PLACE, place.data(), count, MPI_INT, MPI_MAX,
                                             stream.comm()));
        }
        stream.synchronize();
        CHECK(in.get() == std::vector<int>(count, 3 * ranks * (ranks + 1) / 2));
        CHECK(place.get() == std::vector<int>(count, ranks - 1));
    }
}

// A file that C compiles works on the same streams.
void two_units()
{
    Stream stream;
    const int number = 40 + rank;
    CHECK_MPI(send_in_c(&number, right(), stream.comm()));
    CHECK(receive(0, stream.comm()) == 40 + left());
}

// Captured once, each launch communicates.
void graph()
{
    constexpr int kCount = 2000, kLaunches = 20;
    Stream stream;
    Numbers out(kCount), in(kCount), sum(1), back(kCount);
    MPI_Status status;
    CUgraph captured = nullptr;
    CUgraphExec executable = nullptr;
    CUDA(cuStreamBeginCapture, stream.cuda(), CU_STREAM_CAPTURE_MODE_GLOBAL);
    MPI_Request both[2];
    CHECK_MPI(MPIX_Irecv_enqueue(in.data(), kCount, MPI_INT, left(), 1, stream.comm(), &both[0]));
    CHECK_MPI(MPIX_Isend_enqueue(out.data(), kCount, MPI_INT, right(), 1, stream.comm(), &both[1]));
    CHECK_MPI(MPIX_Waitall_enqueue(2, both, MPI_STATUSES_IGNORE));
    CHECK(both[0] == MPI_REQUEST_NULL && both[1] == MPI_REQUEST_NULL);
    for (bool sends : {rank % 2 == 0, rank % 2 == 1}) { // what came goes back
        if (sends) {
            CHECK_MPI(MPIX_Send_enqueue(in.data(), kCount, MPI_INT, left(), 2, stream.comm()));
        } else {
            CHECK_MPI(MPIX_Recv_enqueue(back.data(), kCount, MPI_INT, right(), 2, stream.comm(),
                                        &status));
        }
    }
    CHECK_MPI(MPIX_Allreduce_enqueue(back.data(), sum.data(), 1, MPI_INT, MPI_SUM, stream.comm()));
    CUDA(cuStreamEndCapture, stream.cuda(), &captured);
    CUDA(cuGraphInstantiateWithFlags, &executable, captured, 0ull);
    CUDA(cuGraphDestroy, captured);
    for (int launch = 0; launch < kLaunches; ++launch) {
        stream.fill(out, 10 * launch + rank, kCount);
        CUDA(cuGraphLaunch, executable, stream.cuda());
        if (launch % 5 == 4) {
            stream.synchronize();
            CHECK(in.get() == std::vector<int>(kCount, 10 * launch + left()));
            CHECK(back.get() == std::vector<int>(kCount, 10 * launch + rank));
            CHECK(sum.get()[0] == 10 * launch * ranks + ranks * (ranks - 1) / 2);
            CHECK(status.MPI_SOURCE == right());
        }
    }
    CHECK_MPI(stream.free());
    CUDA(cuGraphExecDestroy, executable);
}

// ---- partitions

constexpr int kPartitions = 16, kLength = 500;

int value_of(int of, int round, size_t at)
{
    return 1000000 * of + 10000 * round + static_cast<int>(at);
}

template <class T>
T& parameter(void* const* parameters, int index)
{
    return *static_cast<T*>(parameters[index]);
}

// The emulated GPU's memory for a kernel; other memory as it is.
int* reached(const softcuda_launch* launch, int* memory)
{
    softcuda_range range;
    if (gpu::driver<decltype(&softcuda_kernel_memory)>("softcuda_kernel_memory")(launch, memory,
                                                                                 &range) != 0) {
        return memory;
    }
    return reinterpret_cast<int*>(range.bytes +
                                  (reinterpret_cast<uintptr_t>(memory) - range.address));
}

// In the place of kernels: one fills partitions in an order of its own, the other looks at those
// that have arrived. It does not wait: the emulated GPU would not copy meanwhile.
int run_fill(const softcuda_launch* launch, void* const* parameters)
{
    const auto& request = parameter<MPIX_Prequest>(parameters, 0);
    int* const data = reached(launch, parameter<int*>(parameters, 1));
    const int round = parameter<int>(parameters, 2);
    std::vector<int> partitions(kPartitions);
    std::iota(partitions.begin(), partitions.end(), 0);
    std::mt19937 random(static_cast<unsigned>(round));
    std::shuffle(partitions.begin(), partitions.end(), random);
    for (int partition : partitions) {
        for (size_t i = 0; i < kLength; ++i) {
            const size_t at = partition * size_t{kLength} + i;
            data[at] = value_of(rank, round, at);
        }
        MPIX_Pready(partition, request);
    }
    return 0;
}

// counts: of partitions that were seen, and of wrong numbers in them.
int run_look(const softcuda_launch* launch, void* const* parameters)
{
    const auto& request = parameter<MPIX_Prequest>(parameters, 0);
    const int* const data = reached(launch, parameter<int*>(parameters, 1));
    const int round = parameter<int>(parameters, 2), from = parameter<int>(parameters, 3);
    int* const counts = reached(launch, parameter<int*>(parameters, 4));
    counts[0] = 0;
    for (int partition = 0; partition < kPartitions; ++partition) {
        int arrived = 0;
        MPIX_Parrived(request, partition, &arrived);
        counts[0] += arrived;
        for (size_t i = 0; arrived != 0 && i < kLength; ++i) {
            const size_t at = partition * size_t{kLength} + i;
            counts[1] += data[at] != value_of(from, round, at);
        }
    }
    return 0;
}

constexpr char kKernels[] = R"(
.version 6.3
.target sm_70
.address_size 64
.visible .entry mpix_fill(.param .align 8 .b8 request[24], .param .u64 data, .param .u32 round) { ret; }
.visible .entry mpix_look(.param .align 8 .b8 request[24], .param .u64 data, .param .u32 round,
    .param .u32 from, .param .u64 counts) { ret; }
)";

CUfunction kernel(const char* name, softcuda_kernel_function function)
{
    gpu::driver<decltype(&softcuda_kernel)>("softcuda_kernel")(name, function);
    CUmodule module = nullptr;
    CUfunction found = nullptr;
    CUDA(cuModuleLoadData, &module, kKernels);
    CUDA(cuModuleGetFunction, &found, module, name);
    return found;
}

void launch(CUfunction kernel, CUstream stream, std::initializer_list<const void*> parameters)
{
    std::vector<void*> all;
    for (const void* one : parameters) {
        all.push_back(const_cast<void*>(one));
    }
    CUDA(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, stream, all.data(), nullptr);
}

// A pair of transfers in a ring of ranks.
class Transfers {
  public:
    Transfers(MPI_Comm comm, int tag) : out(kPartitions * kLength), in(kPartitions * kLength)
    {
        CHECK_MPI(MPIX_Precv_init(in.data(), kPartitions, kLength, MPI_INT, left(), tag, comm,
                                  MPI_INFO_NULL, &receive));
        CHECK_MPI(MPIX_Psend_init(out.data(), kPartitions, kLength, MPI_INT, right(), tag, comm,
                                  MPI_INFO_NULL, &send));
    }
    ~Transfers()
    {
        CHECK_MPI(MPIX_Request_free(&send));
        CHECK_MPI(MPIX_Request_free(&receive));
        CHECK(send == MPIX_REQUEST_NULL && receive == MPIX_REQUEST_NULL);
    }
    Transfers(const Transfers&) = delete;
    Transfers& operator=(const Transfers&) = delete;

    void start()
    {
        CHECK_MPI(MPIX_Start(&receive));
        CHECK_MPI(MPIX_Start(&send));
    }
    void wait()
    {
        MPI_Status status;
        CHECK_MPI(MPIX_Wait(&send, MPI_STATUS_IGNORE));
        CHECK_MPI(MPIX_Wait(&receive, &status));
        CHECK(status.MPI_SOURCE == left());
    }

    Numbers out, in;
    MPIX_Request send = MPIX_REQUEST_NULL, receive = MPIX_REQUEST_NULL;
};

void partitions_by_kernels()
{
    const CUfunction fill = kernel("mpix_fill", run_fill), look = kernel("mpix_look", run_look);
    CUstream stream;
    CUDA(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    MPI_Comm comm;
    CHECK_MPI(MPIX_Stream_comm_create(MPI_COMM_WORLD, MPIX_STREAM_NULL, &comm));
    {
        Transfers transfers(comm, 5);
        Numbers counts(2);
        MPIX_Prequest sends, receives;
        CHECK_MPI(MPIX_Prequest_create(transfers.send, &sends));
        CHECK_MPI(MPIX_Prequest_create(transfers.receive, &receives));
        int *out = transfers.out.data(), *in = transfers.in.data(), *to = counts.data();
        const int from = left();
        for (int round = 1; round <= 50; ++round) {
            transfers.start();
            if (round % 2 == 0) { // the receiver first, else whoever comes first
                CHECK_MPI(MPIX_Pbuf_prepare(transfers.receive));
                CHECK_MPI(MPIX_Pbuf_prepare(transfers.send));
            }
            launch(fill, stream, {&sends, &out, &round});
            do {
                launch(look, stream, {&receives, &in, &round, &from, &to});
                CUDA(cuStreamSynchronize, stream);
            } while (counts.get()[0] < kPartitions);
            transfers.wait();
        }
        CHECK(counts.get()[1] == 0);
        CHECK_MPI(MPIX_Prequest_free(&sends));
        CHECK_MPI(MPIX_Prequest_free(&receives));
    }
    MPI_Comm_free(&comm);
}

// Two transfers with one tag find each other in their order.
void partitions_by_cpu()
{
    MPI_Comm comm;
    CHECK_MPI(MPIX_Stream_comm_create(MPI_COMM_WORLD, MPIX_STREAM_NULL, &comm));
    {
        Transfers both[2] = {{comm, 3}, {comm, 3}};
        std::mt19937 random(7);
        for (int round = 1; round <= 20; ++round) {
            std::vector<int> order(2 * kPartitions);
            std::iota(order.begin(), order.end(), 0);
            std::shuffle(order.begin(), order.end(), random);
            for (int which : {1, 0}) {
                std::vector<int> values(kPartitions * kLength);
                for (size_t at = 0; at < values.size(); ++at) {
                    values[at] = value_of(rank, 100 * which + round, at);
                }
                both[which].out.set(values);
                both[which].start();
                int arrived = 1;
                CHECK_MPI(MPIX_Parrived(both[which].receive, kPartitions - 1, &arrived));
                CHECK(arrived == 0 || round > 1 || ranks > 2); // mostly
            }
            const auto first = std::find(order.begin(), order.end(), 2 * 3 + 1);
            std::iter_swap(order.begin(), first);
            for (int one : order) {
                CHECK_MPI(MPIX_Pready(one / 2, both[one % 2].send));
                for (int arrived = one == order[0] ? 0 : 1; arrived == 0;) {
                    CHECK_MPI(MPIX_Parrived(both[1].receive, 3, &arrived));
                }
            }
            for (int which : {0, 1}) {
                both[which].wait();
                const std::vector<int> values = both[which].in.get();
                for (size_t at = 0; at < values.size(); ++at) {
                    CHECK(values[at] == value_of(left(), 100 * which + round, at));
                }
            }
        }
        MPIX_Request none;
        CHECK_MPI(
            MPIX_Psend_init(nullptr, 2, 0, MPI_INT, MPI_PROC_NULL, 0, comm, MPI_INFO_NULL, &none));
        CHECK_MPI(MPIX_Start(&none));
        CHECK_MPI(MPIX_Pready(1, none));
        CHECK_MPI(MPIX_Pready(0, none));
        CHECK_MPI(MPIX_Wait(&none, MPI_STATUS_IGNORE));
        CHECK_MPI(MPIX_Request_free(&none));
    }
    MPI_Comm_free(&comm);
}

// ---- errors

int handled;

void count_error(MPI_Comm*, int*, ...)
{
    ++handled;
}

// The call is refused, to the error handler, too.
#define REFUSED(call)                                                                              \
    do {                                                                                           \
        const int before = handled;                                                                \
        CHECK((call) == MPI_ERR_OTHER);                                                            \
        CHECK(handled == before + 1);                                                              \
    } while (false)

void errors()
{
    Stream stream;
    MPI_Errhandler counting;
    MPI_Comm_create_errhandler(count_error, &counting);
    MPI_Comm plain;
    MPI_Comm_dup(MPI_COMM_WORLD, &plain);
    for (MPI_Comm comm : {plain, stream.comm(), static_cast<MPI_Comm>(MPI_COMM_WORLD)}) {
        MPI_Comm_set_errhandler(comm, counting);
    }
    int number = rank;
    MPI_Request request, other;
    REFUSED(MPIX_Send_enqueue(&number, 1, MPI_INT, 0, 0, plain));
    REFUSED(MPIX_Irecv_enqueue(&number, 1, MPI_INT, 0, 0, plain, &request));
    REFUSED(MPIX_Allreduce_enqueue(&number, &number, 1, MPI_INT, MPI_SUM, plain));
    MPIX_Stream none = stream.mpi();
    REFUSED(MPIX_Comm_get_stream(stream.comm(), 1, &none));
    REFUSED(MPIX_Stream_create(MPI_INFO_NULL, &none));
    CHECK(none == MPIX_STREAM_NULL);
    REFUSED(MPIX_Stream_free(&none));
    int another = 0;
    MPI_Irecv(&another, 1, MPI_INT, 0, 9, MPI_COMM_SELF, &other);
    request = other;
    REFUSED(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE));
    MPI_Send(&number, 1, MPI_INT, 0, 9, MPI_COMM_SELF);
    MPI_Wait(&other, MPI_STATUS_IGNORE);

    MPIX_Request partitioned;
    MPI_Datatype gaps;
    MPI_Type_vector(2, 1, 2, MPI_INT, &gaps);
    MPI_Type_commit(&gaps);
    REFUSED(MPIX_Psend_init(&number, 1, 1, MPI_INT, 0, 0, plain, MPI_INFO_NULL, &partitioned));
    REFUSED(MPIX_Psend_init(&number, 1, 1, gaps, 0, 0, stream.comm(), MPI_INFO_NULL, &partitioned));
    REFUSED(
        MPIX_Psend_init(&number, 0, 1, MPI_INT, 0, 0, stream.comm(), MPI_INFO_NULL, &partitioned));
    MPI_Type_free(&gaps);

    // The two sides differ, which the receiver is told.
    MPIX_Request sends, receives;
    std::vector<int> in(8), out(8);
    CHECK_MPI(MPIX_Precv_init(in.data(), 2, 4, MPI_INT, left(), 0, stream.comm(), MPI_INFO_NULL,
                              &receives));
    CHECK_MPI(MPIX_Psend_init(out.data(), 4, 2, MPI_INT, right(), 0, stream.comm(), MPI_INFO_NULL,
                              &sends));
    CHECK_MPI(MPIX_Start(&receives));
    REFUSED(MPIX_Start(&receives));
    REFUSED(MPIX_Pready(0, receives));
    REFUSED(MPIX_Pready(0, sends)); // no round is under way
    REFUSED(MPIX_Request_free(&receives));
    REFUSED(MPIX_Pbuf_prepare(receives));
    REFUSED(MPIX_Wait(&receives, MPI_STATUS_IGNORE));
    CHECK_MPI(MPIX_Request_free(&receives));
    CHECK_MPI(MPIX_Request_free(&sends));
    MPI_Errhandler_free(&counting);
    MPI_Comm_free(&plain);

    // An operation that fails: the stream goes on. MPICH asks the handler of another communicator.
    for (MPI_Comm comm : {stream.comm(), static_cast<MPI_Comm>(MPI_COMM_WORLD),
                          static_cast<MPI_Comm>(MPI_COMM_SELF)}) {
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    }
    std::vector<int> many(100, rank);
    MPI_Status status{};
    int error_class = MPI_SUCCESS;
    CHECK_MPI(MPIX_Isend_enqueue(many.data(), 100, MPI_INT, right(), 4, stream.comm(), &request));
    CHECK_MPI(MPIX_Recv_enqueue(&number, 1, MPI_INT, left(), 4, stream.comm(), &status));
    CHECK_MPI(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE));
    CHECK_MPI(MPIX_Irecv_enqueue(&number, 1, MPI_INT, ranks, 4, stream.comm(), &request));
    CHECK_MPI(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE));
    stream.synchronize();
    MPI_Error_class(status.MPI_ERROR, &error_class);
    CHECK(error_class == MPI_ERR_TRUNCATE);
    MPI_Error_class(stream.free(), &error_class);
    CHECK(error_class == MPI_ERR_TRUNCATE);
    for (MPI_Comm comm :
         {static_cast<MPI_Comm>(MPI_COMM_WORLD), static_cast<MPI_Comm>(MPI_COMM_SELF)}) {
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
    }
}

// MPI, or the machine, has not what it takes.
void refused(bool has_gpu)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CUstream cuda = nullptr;
    if (has_gpu) {
        gpu::use(rank);
        CUDA(cuStreamCreate, &cuda, CU_STREAM_NON_BLOCKING);
    }
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "cudaStream_t");
    MPIX_Info_set_hex(info, "value", &cuda, sizeof(cuda));
    MPIX_Stream stream;
    CHECK(MPIX_Stream_create(info, &stream) == MPI_ERR_OTHER);
    CHECK(stream == MPIX_STREAM_NULL);
    MPI_Info_free(&info);
    MPI_Comm comm;
    CHECK_MPI(MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &comm));
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPIX_Request request;
    int number = 0;
    CHECK(MPIX_Psend_init(&number, 1, 1, MPI_INT, 0, 0, comm, MPI_INFO_NULL, &request) ==
          MPI_ERR_OTHER);
    MPI_Comm_free(&comm);
    std::printf("refused\n");
}

} // namespace

int main(int argc, char** argv)
{
    const std::string how = argc > 1 ? argv[1] : "";
    int level;
    MPI_Init_thread(&argc, &argv, how == "single" ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE,
                    &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (how == "single" || how == "none") {
        refused(how == "single");
        MPI_Finalize();
        return 0;
    }
    gpu::use(rank);
    on_gpu = how == "cuda";
    const std::map<std::string, std::function<void()>> cases{
        {"allreduce", allreduce},
        {"blocking", blocking},
        {"errors", errors},
        {"graph", graph},
        {"lifetimes", lifetimes},
        {"order", order},
        {"partitions_by_cpu", partitions_by_cpu},
        {"partitions_by_kernels", partitions_by_kernels},
        {"requests", requests},
        {"two_units", two_units},
    };
    std::vector<std::string> names(argv + 2, argv + argc);
    if (names.empty()) {
        for (const auto& one : cases) {
            names.push_back(one.first);
        }
    }
    for (const std::string& name : names) {
        cases.at(name)();
        barrier();
        if (rank == 0) {
            std::printf("passed: %s\n", name.c_str());
            std::fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
