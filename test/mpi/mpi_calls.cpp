// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_calls CALL host|cuda COUNT: one MPI call on COUNT integers of host or GPU memory, all ranks,
// every element checked. mpi_calls --list names the calls. Exits with 0, with 1 when data are
// wrong, with 77 without a CUDA driver; or dies in the MPI library, if that lets the CPU touch GPU
// memory.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <cuda.h>
#include <dlfcn.h>
#include <mpi.h>

namespace {

int rank, ranks, wrong;

template <class Function>
Function cuda(const char* name)
{
    static void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    void* function = driver == nullptr ? nullptr : dlsym(driver, name);
    if (function == nullptr) {
        std::fprintf(stderr, "no CUDA driver: %s\n", dlerror());
        std::exit(77);
    }
    return reinterpret_cast<Function>(function);
}

void check(CUresult result)
{
    if (result != CUDA_SUCCESS) {
        std::fprintf(stderr, "CUDA error %d\n", result);
        std::exit(1);
    }
}

// Integers in host or GPU memory, set and read through copies.
class Buffer {
  public:
    static inline bool on_gpu = false;

    Buffer(size_t count, int first) : host_(count)
    {
        for (size_t i = 0; i < count; ++i)
            host_[i] = first + static_cast<int>(i);
        if (!on_gpu)
            return;
        check(cuda<CUresult (*)(CUdeviceptr*, size_t)>("cuMemAlloc_v2")(&device_, bytes()));
        check(cuda<CUresult (*)(CUdeviceptr, const void*, size_t)>("cuMemcpyHtoD_v2")(
            device_, host_.data(), bytes()));
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    void* data() { return on_gpu ? reinterpret_cast<void*>(device_) : host_.data(); }

    // The elements from at on have to be first, first + 1, ... for count, or what the rule says.
    void expect(size_t at, size_t count, const std::function<int(size_t)>& rule)
    {
        if (on_gpu)
            check(cuda<CUresult (*)(void*, CUdeviceptr, size_t)>("cuMemcpyDtoH_v2")(
                host_.data(), device_, bytes()));
        for (size_t i = 0; i < count; ++i) {
            if (host_[at + i] != rule(i) && wrong++ == 0)
                std::printf("rank %d: element %zu is %d, not %d\n", rank, at + i, host_[at + i],
                            rule(i));
        }
    }
    void expect(size_t at, size_t count, int first)
    {
        expect(at, count, [&](size_t i) { return first + static_cast<int>(i); });
    }

  private:
    size_t bytes() const { return host_.size() * sizeof(int); }

    std::vector<int> host_;
    CUdeviceptr device_ = 0;
};

int mark(int of_rank)
{
    return 1000003 * (of_rank + 1);
}

// Even ranks send to the next odd one.
bool is_sender()
{
    return rank % 2 == 0;
}
bool is_alone()
{
    return is_sender() && rank + 1 == ranks;
}
int partner()
{
    return is_sender() ? rank + 1 : rank - 1;
}

using Send = std::function<void(const void* data, int count, int to)>;

void one_way(int count, const Send& send)
{
    if (is_alone())
        return;
    Buffer buffer(count, is_sender() ? mark(rank) : 0);
    if (is_sender()) {
        send(buffer.data(), count, partner());
    } else {
        MPI_Recv(buffer.data(), count, MPI_INT, partner(), 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        buffer.expect(0, count, mark(partner()));
    }
}

void receive_by(int count, const std::function<void(void* data)>& receive)
{
    if (is_alone())
        return;
    Buffer buffer(count, is_sender() ? mark(rank) : 0);
    if (is_sender()) {
        MPI_Send(buffer.data(), count, MPI_INT, partner(), 7, MPI_COMM_WORLD);
    } else {
        receive(buffer.data());
        buffer.expect(0, count, mark(partner()));
    }
}

// Elements at a stride of two, as count blocks or in one type.
void of_type(int count, const std::function<void(MPI_Datatype* type)>& make)
{
    if (is_alone())
        return;
    MPI_Datatype type;
    make(&type);
    MPI_Type_commit(&type);
    Buffer buffer(2 * static_cast<size_t>(count), is_sender() ? mark(rank) : 0);
    if (is_sender()) {
        MPI_Send(buffer.data(), 1, type, partner(), 7, MPI_COMM_WORLD);
    } else {
        MPI_Recv(buffer.data(), 1, type, partner(), 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        int size;
        MPI_Type_size(type, &size);
        MPI_Aint low, extent;
        MPI_Type_get_true_extent(type, &low, &extent);
        const bool strided = extent > size;
        buffer.expect(0, 2 * static_cast<size_t>(count) - 1, [&](size_t i) {
            const bool moved = strided ? i % 2 == 0 : i < static_cast<size_t>(count);
            return (moved ? mark(partner()) : 0) + static_cast<int>(i);
        });
    }
    MPI_Type_free(&type);
}

// A window of GPU memory on every rank; the next rank's is acted upon.
void one_sided(int count, const std::function<void(void* mine, int target, MPI_Win window)>& act,
               const std::function<void(Buffer& mine, Buffer& exposed)>& verify)
{
    Buffer exposed(count, mark(rank)), mine(count, mark(rank + 100));
    MPI_Win window;
    MPI_Win_create(exposed.data(), static_cast<MPI_Aint>(count) * sizeof(int), sizeof(int),
                   MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    act(mine.data(), (rank + 1) % ranks, window);
    MPI_Win_fence(0, window);
    verify(mine, exposed);
    MPI_Win_free(&window);
}

int previous()
{
    return (rank + ranks - 1) % ranks;
}

int sum_of_marks(int last, size_t i)
{
    int sum = 0;
    for (int r = 0; r <= last; ++r)
        sum += mark(r) + static_cast<int>(i);
    return sum;
}

void persistent(int count)
{
    if (is_alone())
        return;
    Buffer buffer(count, is_sender() ? mark(rank) : 0);
    MPI_Request request;
    if (is_sender())
        MPI_Send_init(buffer.data(), count, MPI_INT, partner(), 7, MPI_COMM_WORLD, &request);
    else
        MPI_Recv_init(buffer.data(), count, MPI_INT, partner(), 7, MPI_COMM_WORLD, &request);
    for (int i = 0; i < 3; ++i) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
    if (!is_sender())
        buffer.expect(0, count, mark(partner()));
}

void bsend(const void* data, int count, int to)
{
    std::vector<char> room(static_cast<size_t>(count) * sizeof(int) + MPI_BSEND_OVERHEAD);
    MPI_Buffer_attach(room.data(), static_cast<int>(room.size()));
    MPI_Bsend(data, count, MPI_INT, to, 7, MPI_COMM_WORLD);
    void* detached;
    int size;
    MPI_Buffer_detach(&detached, &size);
}

void rsend(const void* data, int count, int to)
{
    int ready;
    MPI_Recv(&ready, 1, MPI_INT, to, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Rsend(data, count, MPI_INT, to, 7, MPI_COMM_WORLD);
}

void ready_receive(int count)
{
    if (is_alone())
        return;
    Buffer buffer(count, is_sender() ? mark(rank) : 0);
    if (is_sender())
        return rsend(buffer.data(), count, partner());
    MPI_Request request;
    MPI_Irecv(buffer.data(), count, MPI_INT, partner(), 7, MPI_COMM_WORLD, &request);
    int ready = 1;
    MPI_Send(&ready, 1, MPI_INT, partner(), 8, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    buffer.expect(0, count, mark(partner()));
}

void pack(int count)
{
    Buffer buffer(count, mark(rank)), unpacked(count, 0);
    int size;
    MPI_Pack_size(count, MPI_INT, MPI_COMM_WORLD, &size);
    std::vector<char> room(static_cast<size_t>(size));
    int at = 0;
    MPI_Pack(buffer.data(), count, MPI_INT, room.data(), size, &at, MPI_COMM_WORLD);
    at = 0;
    MPI_Unpack(room.data(), size, &at, unpacked.data(), count, MPI_INT, MPI_COMM_WORLD);
    unpacked.expect(0, count, mark(rank));
}

struct Call {
    const char* name;
    std::function<void(int count)> run;
};

#define ONE_WAY(call) [](int n) { one_way(n, [](const void* data, int count, int to) { call; }); }

const Call kCalls[] = {
    {"MPI_Send", ONE_WAY(MPI_Send(data, count, MPI_INT, to, 7, MPI_COMM_WORLD))},
    {"MPI_Ssend", ONE_WAY(MPI_Ssend(data, count, MPI_INT, to, 7, MPI_COMM_WORLD))},
    {"MPI_Rsend", ready_receive},
    {"MPI_Bsend", [](int n) { one_way(n, bsend); }},
    {"MPI_Isend",
     ONE_WAY(MPI_Request request; MPI_Isend(data, count, MPI_INT, to, 7, MPI_COMM_WORLD, &request);
             MPI_Wait(&request, MPI_STATUS_IGNORE))},
    {"MPI_Send_init", persistent},
    {"MPI_Probe",
     [](int n) {
         receive_by(n, [n](void* data) {
             MPI_Status status;
             MPI_Probe(partner(), 7, MPI_COMM_WORLD, &status);
             MPI_Recv(data, n, MPI_INT, partner(), 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
         });
     }},
    {"MPI_Mprobe",
     [](int n) {
         receive_by(n, [n](void* data) {
             MPI_Message message;
             MPI_Mprobe(partner(), 7, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
             MPI_Mrecv(data, n, MPI_INT, &message, MPI_STATUS_IGNORE);
         });
     }},
    {"MPI_Sendrecv",
     [](int n) {
         Buffer out(n, mark(rank)), in(n, 0);
         MPI_Sendrecv(out.data(), n, MPI_INT, (rank + 1) % ranks, 7, in.data(), n, MPI_INT,
                      previous(), 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
         in.expect(0, n, mark(previous()));
     }},
    {"MPI_Sendrecv_replace",
     [](int n) {
         Buffer buffer(n, mark(rank));
         MPI_Sendrecv_replace(buffer.data(), n, MPI_INT, (rank + 1) % ranks, 7, previous(), 7,
                              MPI_COMM_WORLD, MPI_STATUS_IGNORE);
         buffer.expect(0, n, mark(previous()));
     }},
    {"MPI_Type_contiguous",
     [](int n) { of_type(n, [n](MPI_Datatype* t) { MPI_Type_contiguous(n, MPI_INT, t); }); }},
    {"MPI_Type_vector",
     [](int n) { of_type(n, [n](MPI_Datatype* t) { MPI_Type_vector(n, 1, 2, MPI_INT, t); }); }},
    {"MPI_Pack", pack},
    {"MPI_Bcast",
     [](int n) {
         Buffer buffer(n, rank == 0 ? mark(0) : 0);
         MPI_Bcast(buffer.data(), n, MPI_INT, 0, MPI_COMM_WORLD);
         buffer.expect(0, n, mark(0));
     }},
    {"MPI_Ibcast",
     [](int n) {
         Buffer buffer(n, rank == 0 ? mark(0) : 0);
         MPI_Request request;
         MPI_Ibcast(buffer.data(), n, MPI_INT, 0, MPI_COMM_WORLD, &request);
         MPI_Wait(&request, MPI_STATUS_IGNORE);
         buffer.expect(0, n, mark(0));
     }},
    {"MPI_Gather",
     [](int n) {
         Buffer mine(n, mark(rank)), all(static_cast<size_t>(n) * ranks, 0);
         MPI_Gather(mine.data(), n, MPI_INT, all.data(), n, MPI_INT, 0, MPI_COMM_WORLD);
         for (int r = 0; r < ranks && rank == 0; ++r)
             all.expect(static_cast<size_t>(r) * n, n, mark(r));
     }},
    {"MPI_Scatter",
     [](int n) {
         Buffer mine(n, 0), all(static_cast<size_t>(n) * ranks, 5);
         MPI_Scatter(all.data(), n, MPI_INT, mine.data(), n, MPI_INT, 0, MPI_COMM_WORLD);
         mine.expect(0, n, 5 + rank * n);
     }},
    {"MPI_Allgather",
     [](int n) {
         Buffer mine(n, mark(rank)), all(static_cast<size_t>(n) * ranks, 0);
         MPI_Allgather(mine.data(), n, MPI_INT, all.data(), n, MPI_INT, MPI_COMM_WORLD);
         for (int r = 0; r < ranks; ++r)
             all.expect(static_cast<size_t>(r) * n, n, mark(r));
     }},
    {"MPI_Allgather_in_place",
     [](int n) {
         Buffer all(static_cast<size_t>(n) * ranks, 7);
         MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all.data(), n, MPI_INT, MPI_COMM_WORLD);
         all.expect(0, static_cast<size_t>(n) * ranks, 7);
     }},
    {"MPI_Alltoall",
     [](int n) {
         Buffer out(static_cast<size_t>(n) * ranks, mark(rank)),
             in(static_cast<size_t>(n) * ranks, 0);
         MPI_Alltoall(out.data(), n, MPI_INT, in.data(), n, MPI_INT, MPI_COMM_WORLD);
         for (int r = 0; r < ranks; ++r)
             in.expect(static_cast<size_t>(r) * n, n, mark(r) + rank * n);
     }},
    {"MPI_Reduce",
     [](int n) {
         Buffer out(n, mark(rank)), in(n, 0);
         MPI_Reduce(out.data(), in.data(), n, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
         if (rank == 0)
             in.expect(0, n, [](size_t i) { return sum_of_marks(ranks - 1, i); });
     }},
    {"MPI_Allreduce",
     [](int n) {
         Buffer out(n, mark(rank)), in(n, 0);
         MPI_Allreduce(out.data(), in.data(), n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
         in.expect(0, n, [](size_t i) { return sum_of_marks(ranks - 1, i); });
     }},
    {"MPI_Scan",
     [](int n) {
         Buffer out(n, mark(rank)), in(n, 0);
         MPI_Scan(out.data(), in.data(), n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
         in.expect(0, n, [](size_t i) { return sum_of_marks(rank, i); });
     }},
    {"MPI_Reduce_scatter_block",
     [](int n) {
         Buffer out(static_cast<size_t>(n) * ranks, mark(rank)), in(n, 0);
         MPI_Reduce_scatter_block(out.data(), in.data(), n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
         in.expect(0, n, [&](size_t i) {
             return sum_of_marks(ranks - 1, i + static_cast<size_t>(n) * rank);
         });
     }},
    {"MPI_Barrier", [](int) { MPI_Barrier(MPI_COMM_WORLD); }},
    {"MPI_Put",
     [](int n) {
         one_sided(
             n,
             [n](void* mine, int target, MPI_Win window) {
                 MPI_Put(mine, n, MPI_INT, target, 0, n, MPI_INT, window);
             },
             [n](Buffer&, Buffer& exposed) { exposed.expect(0, n, mark(previous() + 100)); });
     }},
    {"MPI_Get",
     [](int n) {
         one_sided(
             n,
             [n](void* mine, int target, MPI_Win window) {
                 MPI_Get(mine, n, MPI_INT, target, 0, n, MPI_INT, window);
             },
             [n](Buffer& mine, Buffer&) { mine.expect(0, n, mark((rank + 1) % ranks)); });
     }},
    {"MPI_Accumulate",
     [](int n) {
         one_sided(
             n,
             [n](void* mine, int target, MPI_Win window) {
                 MPI_Accumulate(mine, n, MPI_INT, target, 0, n, MPI_INT, MPI_SUM, window);
             },
             [n](Buffer&, Buffer& exposed) {
                 exposed.expect(0, n, [](size_t i) {
                     return mark(rank) + mark(previous() + 100) + 2 * static_cast<int>(i);
                 });
             });
     }},
    {"MPI_Fetch_and_op",
     [](int n) {
         one_sided(
             n,
             [](void* mine, int target, MPI_Win window) {
                 static int operand = 5;
                 MPI_Fetch_and_op(&operand, mine, MPI_INT, target, 0, MPI_SUM, window);
             },
             [](Buffer& mine, Buffer& exposed) {
                 mine.expect(0, 1, mark((rank + 1) % ranks));
                 exposed.expect(0, 1, mark(rank) + 5);
             });
     }},
};

} // namespace

int main(int argc, char** argv)
{
    if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
        for (const Call& call : kCalls)
            std::puts(call.name);
        return 0;
    }
    if (argc != 4) {
        std::fprintf(stderr, "usage: mpi_calls CALL|all host|cuda COUNT, or mpi_calls --list\n");
        return 2;
    }
    Buffer::on_gpu = std::strcmp(argv[2], "cuda") == 0;
    if (Buffer::on_gpu) {
        check(cuda<CUresult (*)(unsigned)>("cuInit")(0));
        CUcontext context;
        check(cuda<CUresult (*)(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain")(&context, 0));
        check(cuda<CUresult (*)(CUcontext)>("cuCtxSetCurrent")(context));
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    bool found = false;
    for (const Call& call : kCalls) {
        if (std::strcmp(argv[1], "all") != 0 && std::strcmp(argv[1], call.name) != 0)
            continue;
        found = true;
        const int before = wrong;
        call.run(std::atoi(argv[3]));
        if (wrong != before)
            std::printf("rank %d: FAILED %s: %d elements are wrong\n", rank, call.name,
                        wrong - before);
    }
    MPI_Finalize();
    if (!found)
        std::fprintf(stderr, "no such call: %s\n", argv[1]);
    return found && wrong == 0 ? 0 : 1;
}
