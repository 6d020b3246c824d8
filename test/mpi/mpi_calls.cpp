// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_calls host|cuda|SEED COUNT CALL...: MPI calls on COUNT integers of host or GPU memory, or,
// with a SEED, each rank's each buffer on either at random; one after another, each announced, all
// ranks, every element checked; without a CALL all there are. mpi_calls --list names them. Exits
// with 0, with 1 when data are wrong, with 77 without a CUDA driver; or dies in the MPI library, if
// that lets the CPU touch GPU memory.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <numeric>
#include <random>
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
    enum class Memory { host, gpu, random };
    static inline Memory memory = Memory::host;
    static inline std::mt19937 random;

    Buffer(size_t count, int first)
        : host_(count), on_gpu(memory == Memory::random ? random() % 2 == 0 : memory == Memory::gpu)
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
    const bool on_gpu;
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

// The first count elements, or, of a type with gaps, every other one.
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

// Both directions, around the ring.
void start_all(int count)
{
    Buffer out(count, mark(rank)), in(count, 0);
    MPI_Request requests[2];
    MPI_Ssend_init(out.data(), count, MPI_INT, (rank + 1) % ranks, 7, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(in.data(), count, MPI_INT, previous(), 7, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 3; ++i) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    in.expect(0, count, mark(previous()));
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

// With the room on the GPU, too. It comes back as it was given.
void bsend_on_gpu(const void* data, int count, int to)
{
    Buffer room(static_cast<size_t>(count) + MPI_BSEND_OVERHEAD, 0);
    const int length = count * static_cast<int>(sizeof(int)) + MPI_BSEND_OVERHEAD;
    MPI_Buffer_attach(room.data(), length);
    MPI_Bsend(data, count, MPI_INT, to, 7, MPI_COMM_WORLD);
    void* detached;
    int size;
    MPI_Buffer_detach(&detached, &size);
    if (detached != room.data() || size != length)
        ++wrong;
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

void add_integers(void* in, void* both, int* count, MPI_Datatype*)
{
    for (int i = 0; i < *count; ++i)
        static_cast<int*>(both)[i] += static_cast<int*>(in)[i];
}

// In a row of ranks, where those at the ends have a neighbour less.
void neighbours(int n)
{
    MPI_Comm row;
    const int periodic = 0;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periodic, 0, &row);
    Buffer out(2 * static_cast<size_t>(n), mark(rank)), in(2 * static_cast<size_t>(n), 7);
    MPI_Neighbor_alltoall(out.data(), n, MPI_INT, in.data(), n, MPI_INT, row);
    in.expect(0, n, rank == 0 ? 7 : mark(rank - 1) + n);
    in.expect(n, n, rank + 1 == ranks ? 7 + n : mark(rank + 1));
    MPI_Comm_free(&row);
}

void complete(const std::function<void(MPI_Request*)>& start)
{
    MPI_Request request;
    start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// In the same row.
template <bool nonblocking>
void neighbours_gather(int n)
{
    MPI_Comm row;
    const int periodic = 0;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periodic, 0, &row);
    Buffer out(n, mark(rank)), in(2 * static_cast<size_t>(n), 7);
    if (nonblocking)
        complete([&](MPI_Request* request) {
            MPI_Ineighbor_allgather(out.data(), n, MPI_INT, in.data(), n, MPI_INT, row, request);
        });
    else
        MPI_Neighbor_allgather(out.data(), n, MPI_INT, in.data(), n, MPI_INT, row);
    in.expect(0, n, rank == 0 ? 7 : mark(rank - 1));
    in.expect(n, n, rank + 1 == ranks ? 7 + n : mark(rank + 1));
    MPI_Comm_free(&row);
}

// By a request, which is complete when what was sent may be written again.
void one_sided_by_request(
    int n,
    const std::function<void(void* mine, int target, MPI_Win window, MPI_Request* request)>& act)
{
    Buffer exposed(n, mark(rank)), mine(n, mark(rank + 100));
    MPI_Win window;
    MPI_Win_create(exposed.data(), static_cast<MPI_Aint>(n) * sizeof(int), sizeof(int),
                   MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_lock_all(0, window);
    complete([&](MPI_Request* request) { act(mine.data(), (rank + 1) % ranks, window, request); });
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    exposed.expect(0, n, mark(previous() + 100));
    MPI_Win_free(&window);
}

// Two at a time, waited for in the other order.
void all_to_all_twice(int n)
{
    const size_t all = static_cast<size_t>(n) * ranks;
    Buffer out(all, mark(rank)), in(all, 0), more_out(all, mark(rank + 50)), more_in(all, 0);
    MPI_Request first, second;
    MPI_Ialltoall(out.data(), n, MPI_INT, in.data(), n, MPI_INT, MPI_COMM_WORLD, &first);
    MPI_Ialltoall(more_out.data(), n, MPI_INT, more_in.data(), n, MPI_INT, MPI_COMM_WORLD, &second);
    MPI_Wait(&second, MPI_STATUS_IGNORE);
    MPI_Wait(&first, MPI_STATUS_IGNORE);
    for (int r = 0; r < ranks; ++r) {
        in.expect(static_cast<size_t>(r) * n, n, mark(r) + rank * n);
        more_in.expect(static_cast<size_t>(r) * n, n, mark(r + 50) + rank * n);
    }
}

constexpr int kColumns = 3;

void wait_any(MPI_Request* requests)
{
    for (int i = 0, index; i < kColumns; ++i)
        MPI_Waitany(kColumns, requests, &index, MPI_STATUS_IGNORE);
}

void wait_some(MPI_Request* requests)
{
    int indices[kColumns];
    for (int done = 0, some; done < kColumns; done += some)
        MPI_Waitsome(kColumns, requests, &some, indices, MPI_STATUSES_IGNORE);
}

void test_all(MPI_Request* requests)
{
    for (int done = 0; done == 0;)
        MPI_Testall(kColumns, requests, &done, MPI_STATUSES_IGNORE);
}

void test_any(MPI_Request* requests)
{
    for (int done = 0; done < kColumns;) {
        int index, flag;
        MPI_Testany(kColumns, requests, &index, &flag, MPI_STATUS_IGNORE);
        done += flag;
    }
}

// Three columns of one matrix, under way at the same time: each request's bytes lie between those
// of the others. And a fourth, which belongs to none.
void columns(int n, void (*complete)(MPI_Request*))
{
    MPI_Datatype column;
    MPI_Type_vector(n, 1, kColumns + 1, MPI_INT, &column);
    MPI_Type_commit(&column);
    const size_t all = static_cast<size_t>(n) * (kColumns + 1);
    Buffer out(all, mark(rank)), in(all, 0);
    const int next = (rank + 1) % ranks;
    MPI_Request requests[kColumns], sends[kColumns];
    for (int i = 0; i < kColumns; ++i)
        MPI_Irecv(static_cast<int*>(in.data()) + i, 1, column, previous(), i, MPI_COMM_WORLD,
                  &requests[i]);
    for (int i = kColumns - 1; i >= 0; --i)
        MPI_Isend(static_cast<int*>(out.data()) + i, 1, column, next, i, MPI_COMM_WORLD, &sends[i]);
    complete(requests);
    MPI_Waitall(kColumns, sends, MPI_STATUSES_IGNORE);
    in.expect(0, all, [](size_t i) {
        return (i % (kColumns + 1) < kColumns ? mark(previous()) : 0) + static_cast<int>(i);
    });
    MPI_Type_free(&column);
}

// Sends that are forgotten, and by a persistent request.
void free_requests(int n)
{
    Buffer out(2 * static_cast<size_t>(n), mark(rank)), in(2 * static_cast<size_t>(n), 0);
    const int next = (rank + 1) % ranks;
    MPI_Datatype every_other;
    MPI_Type_vector(n, 1, 2, MPI_INT, &every_other);
    MPI_Type_commit(&every_other);
    MPI_Request receive, send;
    MPI_Irecv(in.data(), 1, every_other, previous(), 7, MPI_COMM_WORLD, &receive);
    MPI_Send_init(out.data(), 1, every_other, next, 7, MPI_COMM_WORLD, &send);
    MPI_Start(&send);
    MPI_Request_free(&send);
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    in.expect(0, 2 * static_cast<size_t>(n) - 1,
              [](size_t i) { return (i % 2 == 0 ? mark(previous()) : 0) + static_cast<int>(i); });
    MPI_Type_free(&every_other);
}

// A type of absolute addresses.
void bottom(int n)
{
    Buffer out(n, mark(rank)), in(n, 0);
    const int next = (rank + 1) % ranks;
    MPI_Aint from, to;
    MPI_Get_address(out.data(), &from);
    MPI_Get_address(in.data(), &to);
    MPI_Datatype sent, received;
    MPI_Type_create_hindexed(1, &n, &from, MPI_INT, &sent);
    MPI_Type_create_hindexed(1, &n, &to, MPI_INT, &received);
    MPI_Type_commit(&sent);
    MPI_Type_commit(&received);
    MPI_Sendrecv(MPI_BOTTOM, 1, sent, next, 7, MPI_BOTTOM, 1, received, previous(), 7,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    in.expect(0, n, mark(previous()));
    MPI_Type_free(&sent);
    MPI_Type_free(&received);
}

// Each rank writes its part of a file and reads its neighbour's.
void file(int n)
{
    const char* directory = std::getenv("TMPDIR");
    const std::string path = std::string(directory ? directory : "/tmp") + "/mpi_calls.file";
    const MPI_Offset part = static_cast<MPI_Offset>(n) * sizeof(int);
    Buffer out(n, mark(rank)), in(n, 0), again(n, 0);
    MPI_File opened;
    MPI_File_open(MPI_COMM_WORLD, path.c_str(),
                  MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                  &opened);
    MPI_File_write_at_all(opened, rank * part, out.data(), n, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_sync(opened);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(opened);
    MPI_Request request;
    MPI_File_iread_at(opened, previous() * part, in.data(), n, MPI_INT, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_File_read_at_all_begin(opened, previous() * part, again.data(), n, MPI_INT);
    MPI_File_read_at_all_end(opened, again.data(), MPI_STATUS_IGNORE);
    MPI_File_close(&opened);
    in.expect(0, n, mark(previous()));
    again.expect(0, n, mark(previous()));
}

// Into what is packed on the GPU, too, and the external form.
void pack_on_gpu(int n)
{
    int size;
    MPI_Pack_size(n, MPI_INT, MPI_COMM_WORLD, &size);
    Buffer mine(n, mark(rank)), packed(size / sizeof(int) + 1, 0), unpacked(n, 0);
    int at = 0;
    MPI_Pack(mine.data(), n - 1, MPI_INT, packed.data(), size, &at, MPI_COMM_WORLD);
    MPI_Pack(static_cast<int*>(mine.data()) + n - 1, 1, MPI_INT, packed.data(), size, &at,
             MPI_COMM_WORLD);
    at = 0;
    MPI_Unpack(packed.data(), size, &at, unpacked.data(), n, MPI_INT, MPI_COMM_WORLD);
    unpacked.expect(0, n, mark(rank));
    Buffer external(n, 0), back(n, 0);
    MPI_Aint where = 0;
    const auto bytes = static_cast<MPI_Aint>(n * sizeof(int));
    MPI_Pack_external("external32", mine.data(), n, MPI_INT, external.data(), bytes, &where);
    where = 0;
    MPI_Unpack_external("external32", external.data(), bytes, &where, back.data(), n, MPI_INT);
    back.expect(0, n, mark(rank));
}

// Of the calls whose blocks differ: what one rank has for another, at multiples of the largest.
int share(int count, int from, int to)
{
    return count - from - to;
}

struct Shares {
    std::vector<int> counts, offsets;
    Shares(int count, const std::function<int(int of_rank)>& share_of)
    {
        for (int r = 0; r < ranks; ++r) {
            counts.push_back(share_of(r));
            offsets.push_back(r * count);
        }
    }
};

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
    {"MPI_Buffer_attach", [](int n) { one_way(n, bsend_on_gpu); }},
    {"MPI_Isend",
     ONE_WAY(MPI_Request request; MPI_Isend(data, count, MPI_INT, to, 7, MPI_COMM_WORLD, &request);
             MPI_Wait(&request, MPI_STATUS_IGNORE))},
    {"MPI_Send_init", persistent},
    {"MPI_Startall", start_all},
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
    {"MPI_Type_indexed",
     [](int n) {
         of_type(n, [n](MPI_Datatype* t) {
             std::vector<int> lengths(n, 1), offsets(n);
             for (int i = 0; i < n; ++i)
                 offsets[i] = 2 * i;
             MPI_Type_indexed(n, lengths.data(), offsets.data(), MPI_INT, t);
         });
     }},
    {"MPI_Type_create_struct",
     [](int n) {
         of_type(n, [n](MPI_Datatype* t) {
             std::vector<int> lengths(n, 1);
             std::vector<MPI_Aint> offsets(n);
             for (int i = 0; i < n; ++i)
                 offsets[i] = 2 * i * static_cast<MPI_Aint>(sizeof(int));
             const std::vector<MPI_Datatype> types(n, MPI_INT);
             MPI_Type_create_struct(n, lengths.data(), offsets.data(), types.data(), t);
         });
     }},
    {"MPI_Type_create_subarray",
     [](int n) {
         of_type(n, [n](MPI_Datatype* t) {
             const int whole[] = {n, 2}, part[] = {n, 1}, start[] = {0, 0};
             MPI_Type_create_subarray(2, whole, part, start, MPI_ORDER_C, MPI_INT, t);
         });
     }},
    {"MPI_Pack", pack},
    {"MPI_Pack_external", pack_on_gpu},
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
    {"MPI_Gatherv",
     [](int n) {
         Buffer mine(n, mark(rank)), all(static_cast<size_t>(n) * ranks, 0);
         const Shares from(n, [n](int r) { return share(n, r, 0); });
         MPI_Gatherv(mine.data(), from.counts[rank], MPI_INT, all.data(), from.counts.data(),
                     from.offsets.data(), MPI_INT, 0, MPI_COMM_WORLD);
         for (int r = 0; r < ranks && rank == 0; ++r)
             all.expect(from.offsets[r], from.counts[r], mark(r));
     }},
    {"MPI_Scatterv",
     [](int n) {
         Buffer mine(n, 0), all(static_cast<size_t>(n) * ranks, 5);
         const Shares to(n, [n](int r) { return share(n, 0, r); });
         MPI_Scatterv(all.data(), to.counts.data(), to.offsets.data(), MPI_INT, mine.data(),
                      to.counts[rank], MPI_INT, 0, MPI_COMM_WORLD);
         mine.expect(0, to.counts[rank], 5 + rank * n);
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
    {"MPI_Allgatherv",
     [](int n) {
         Buffer mine(n, mark(rank)), all(static_cast<size_t>(n) * ranks, 0);
         const Shares from(n, [n](int r) { return share(n, r, 0); });
         MPI_Allgatherv(mine.data(), from.counts[rank], MPI_INT, all.data(), from.counts.data(),
                        from.offsets.data(), MPI_INT, MPI_COMM_WORLD);
         for (int r = 0; r < ranks; ++r)
             all.expect(from.offsets[r], from.counts[r], mark(r));
     }},
    {"MPI_Alltoall",
     [](int n) {
         Buffer out(static_cast<size_t>(n) * ranks, mark(rank)),
             in(static_cast<size_t>(n) * ranks, 0);
         MPI_Alltoall(out.data(), n, MPI_INT, in.data(), n, MPI_INT, MPI_COMM_WORLD);
         for (int r = 0; r < ranks; ++r)
             in.expect(static_cast<size_t>(r) * n, n, mark(r) + rank * n);
     }},
    {"MPI_Alltoallv",
     [](int n) {
         Buffer out(static_cast<size_t>(n) * ranks, mark(rank)),
             in(static_cast<size_t>(n) * ranks, 0);
         const Shares each(n, [n](int r) { return share(n, rank, r); });
         MPI_Alltoallv(out.data(), each.counts.data(), each.offsets.data(), MPI_INT, in.data(),
                       each.counts.data(), each.offsets.data(), MPI_INT, MPI_COMM_WORLD);
         for (int r = 0; r < ranks; ++r)
             in.expect(each.offsets[r], each.counts[r], mark(r) + rank * n);
     }},
    {"MPI_Alltoallw",
     [](int n) {
         Buffer out(static_cast<size_t>(n) * ranks, mark(rank)),
             in(static_cast<size_t>(n) * ranks, 0);
         const Shares each(n, [n](int r) { return share(n, rank, r); });
         std::vector<int> bytes;
         for (int offset : each.offsets)
             bytes.push_back(offset * static_cast<int>(sizeof(int)));
         const std::vector<MPI_Datatype> types(ranks, MPI_INT);
         MPI_Alltoallw(out.data(), each.counts.data(), bytes.data(), types.data(), in.data(),
                       each.counts.data(), bytes.data(), types.data(), MPI_COMM_WORLD);
         for (int r = 0; r < ranks; ++r)
             in.expect(each.offsets[r], each.counts[r], mark(r) + rank * n);
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
    {"MPI_Exscan",
     [](int n) {
         Buffer out(n, mark(rank)), in(n, 0);
         MPI_Exscan(out.data(), in.data(), n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
         if (rank > 0)
             in.expect(0, n, [](size_t i) { return sum_of_marks(rank - 1, i); });
     }},
    {"MPI_Reduce_scatter",
     [](int n) {
         Buffer out(static_cast<size_t>(n) * ranks, mark(rank)), in(n, 0);
         const Shares to(n, [n](int r) { return share(n, 0, r); });
         MPI_Reduce_scatter(out.data(), in.data(), to.counts.data(), MPI_INT, MPI_SUM,
                            MPI_COMM_WORLD);
         const size_t before = std::accumulate(to.counts.begin(), to.counts.begin() + rank, 0);
         in.expect(0, to.counts[rank],
                   [&](size_t i) { return sum_of_marks(ranks - 1, i + before); });
     }},
    {"MPI_Reduce_scatter_block",
     [](int n) {
         Buffer out(static_cast<size_t>(n) * ranks, mark(rank)), in(n, 0);
         MPI_Reduce_scatter_block(out.data(), in.data(), n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
         in.expect(0, n, [&](size_t i) {
             return sum_of_marks(ranks - 1, i + static_cast<size_t>(n) * rank);
         });
     }},
    {"MPI_Allreduce_in_place",
     [](int n) {
         Buffer both(n, mark(rank));
         MPI_Allreduce(MPI_IN_PLACE, both.data(), n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
         both.expect(0, n, [](size_t i) { return sum_of_marks(ranks - 1, i); });
     }},
    {"MPI_Op_create",
     [](int n) {
         Buffer out(n, mark(rank)), in(n, 0);
         MPI_Op op;
         MPI_Op_create(add_integers, 1, &op);
         MPI_Allreduce(out.data(), in.data(), n, MPI_INT, op, MPI_COMM_WORLD);
         MPI_Op_free(&op);
         in.expect(0, n, [](size_t i) { return sum_of_marks(ranks - 1, i); });
     }},
    {"MPI_Reduce_local",
     [](int n) {
         Buffer in(n, mark(0)), both(n, mark(1));
         MPI_Reduce_local(in.data(), both.data(), n, MPI_INT, MPI_SUM);
         both.expect(0, n, [](size_t i) { return sum_of_marks(1, i); });
     }},
    {"MPI_Neighbor_alltoall", neighbours},
    {"MPI_Iallreduce",
     [](int n) {
         Buffer out(n, mark(rank)), in(n, 0);
         MPI_Request request;
         MPI_Iallreduce(out.data(), in.data(), n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
         MPI_Wait(&request, MPI_STATUS_IGNORE);
         in.expect(0, n, [](size_t i) { return sum_of_marks(ranks - 1, i); });
     }},
    {"MPI_Ialltoall", all_to_all_twice},
    {"MPI_Igather",
     [](int n) {
         Buffer mine(n, mark(rank)), all(static_cast<size_t>(n) * ranks, 0);
         complete([&](MPI_Request* request) {
             MPI_Igather(mine.data(), n, MPI_INT, all.data(), n, MPI_INT, 0, MPI_COMM_WORLD,
                         request);
         });
         for (int r = 0; r < ranks && rank == 0; ++r)
             all.expect(static_cast<size_t>(r) * n, n, mark(r));
     }},
    {"MPI_Igatherv",
     [](int n) {
         Buffer mine(n, mark(rank)), all(static_cast<size_t>(n) * ranks, 0);
         const Shares from(n, [n](int r) { return share(n, r, 0); });
         complete([&](MPI_Request* request) {
             MPI_Igatherv(mine.data(), from.counts[rank], MPI_INT, all.data(), from.counts.data(),
                          from.offsets.data(), MPI_INT, 0, MPI_COMM_WORLD, request);
         });
         for (int r = 0; r < ranks && rank == 0; ++r)
             all.expect(from.offsets[r], from.counts[r], mark(r));
     }},
    {"MPI_Iscatter",
     [](int n) {
         Buffer mine(n, 0), all(static_cast<size_t>(n) * ranks, 5);
         complete([&](MPI_Request* request) {
             MPI_Iscatter(all.data(), n, MPI_INT, mine.data(), n, MPI_INT, 0, MPI_COMM_WORLD,
                          request);
         });
         mine.expect(0, n, 5 + rank * n);
     }},
    {"MPI_Iscatterv",
     [](int n) {
         Buffer mine(n, 0), all(static_cast<size_t>(n) * ranks, 5);
         const Shares to(n, [n](int r) { return share(n, 0, r); });
         complete([&](MPI_Request* request) {
             MPI_Iscatterv(all.data(), to.counts.data(), to.offsets.data(), MPI_INT, mine.data(),
                           to.counts[rank], MPI_INT, 0, MPI_COMM_WORLD, request);
         });
         mine.expect(0, to.counts[rank], 5 + rank * n);
     }},
    {"MPI_Iallgather",
     [](int n) {
         Buffer mine(n, mark(rank)), all(static_cast<size_t>(n) * ranks, 0);
         complete([&](MPI_Request* request) {
             MPI_Iallgather(mine.data(), n, MPI_INT, all.data(), n, MPI_INT, MPI_COMM_WORLD,
                            request);
         });
         for (int r = 0; r < ranks; ++r)
             all.expect(static_cast<size_t>(r) * n, n, mark(r));
     }},
    {"MPI_Iallgatherv",
     [](int n) {
         Buffer mine(n, mark(rank)), all(static_cast<size_t>(n) * ranks, 0);
         const Shares from(n, [n](int r) { return share(n, r, 0); });
         complete([&](MPI_Request* request) {
             MPI_Iallgatherv(mine.data(), from.counts[rank], MPI_INT, all.data(),
                             from.counts.data(), from.offsets.data(), MPI_INT, MPI_COMM_WORLD,
                             request);
         });
         for (int r = 0; r < ranks; ++r)
             all.expect(from.offsets[r], from.counts[r], mark(r));
     }},
    {"MPI_Ialltoallv",
     [](int n) {
         Buffer out(static_cast<size_t>(n) * ranks, mark(rank)),
             in(static_cast<size_t>(n) * ranks, 0);
         const Shares each(n, [n](int r) { return share(n, rank, r); });
         complete([&](MPI_Request* request) {
             MPI_Ialltoallv(out.data(), each.counts.data(), each.offsets.data(), MPI_INT, in.data(),
                            each.counts.data(), each.offsets.data(), MPI_INT, MPI_COMM_WORLD,
                            request);
         });
         for (int r = 0; r < ranks; ++r)
             in.expect(each.offsets[r], each.counts[r], mark(r) + rank * n);
     }},
    {"MPI_Ireduce",
     [](int n) {
         Buffer out(n, mark(rank)), in(n, 0);
         complete([&](MPI_Request* request) {
             MPI_Ireduce(out.data(), in.data(), n, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD, request);
         });
         if (rank == 0)
             in.expect(0, n, [](size_t i) { return sum_of_marks(ranks - 1, i); });
     }},
    {"MPI_Iscan",
     [](int n) {
         Buffer out(n, mark(rank)), in(n, 0);
         complete([&](MPI_Request* request) {
             MPI_Iscan(out.data(), in.data(), n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, request);
         });
         in.expect(0, n, [](size_t i) { return sum_of_marks(rank, i); });
     }},
    {"MPI_Iexscan",
     [](int n) {
         Buffer out(n, mark(rank)), in(n, 0);
         complete([&](MPI_Request* request) {
             MPI_Iexscan(out.data(), in.data(), n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, request);
         });
         if (rank > 0)
             in.expect(0, n, [](size_t i) { return sum_of_marks(rank - 1, i); });
     }},
    {"MPI_Ireduce_scatter",
     [](int n) {
         Buffer out(static_cast<size_t>(n) * ranks, mark(rank)), in(n, 0);
         const Shares to(n, [n](int r) { return share(n, 0, r); });
         complete([&](MPI_Request* request) {
             MPI_Ireduce_scatter(out.data(), in.data(), to.counts.data(), MPI_INT, MPI_SUM,
                                 MPI_COMM_WORLD, request);
         });
         const size_t before = std::accumulate(to.counts.begin(), to.counts.begin() + rank, 0);
         in.expect(0, to.counts[rank],
                   [&](size_t i) { return sum_of_marks(ranks - 1, i + before); });
     }},
    {"MPI_Ireduce_scatter_block",
     [](int n) {
         Buffer out(static_cast<size_t>(n) * ranks, mark(rank)), in(n, 0);
         complete([&](MPI_Request* request) {
             MPI_Ireduce_scatter_block(out.data(), in.data(), n, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                                       request);
         });
         in.expect(0, n, [&](size_t i) {
             return sum_of_marks(ranks - 1, i + static_cast<size_t>(n) * rank);
         });
     }},
    {"MPI_Neighbor_allgather", neighbours_gather<false>},
    {"MPI_Ineighbor_allgather", neighbours_gather<true>},
    {"MPI_Issend", ONE_WAY(complete([&](MPI_Request* request) {
         MPI_Issend(data, count, MPI_INT, to, 7, MPI_COMM_WORLD, request);
     }))},
    {"MPI_Imrecv",
     [](int n) {
         receive_by(n, [n](void* data) {
             MPI_Message message;
             MPI_Mprobe(partner(), 7, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
             complete(
                 [&](MPI_Request* request) { MPI_Imrecv(data, n, MPI_INT, &message, request); });
         });
     }},
    {"MPI_Rput",
     [](int n) {
         one_sided_by_request(n, [n](void* mine, int target, MPI_Win window, MPI_Request* request) {
             MPI_Rput(mine, n, MPI_INT, target, 0, n, MPI_INT, window, request);
         });
     }},
    {"MPI_Waitany", [](int n) { columns(n, wait_any); }},
    {"MPI_Waitsome", [](int n) { columns(n, wait_some); }},
    {"MPI_Testall", [](int n) { columns(n, test_all); }},
    {"MPI_Testany", [](int n) { columns(n, test_any); }},
    {"MPI_Request_free", free_requests},
    {"MPI_BOTTOM", bottom},
    {"MPI_File_write_at_all", file},
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
    {"MPI_Get_accumulate",
     [](int n) {
         Buffer fetched(n, 0);
         one_sided(
             n,
             [&](void* mine, int target, MPI_Win window) {
                 MPI_Get_accumulate(mine, n, MPI_INT, fetched.data(), n, MPI_INT, target, 0, n,
                                    MPI_INT, MPI_SUM, window);
             },
             [&](Buffer&, Buffer& exposed) {
                 fetched.expect(0, n, mark((rank + 1) % ranks));
                 exposed.expect(0, n, [](size_t i) {
                     return mark(rank) + mark(previous() + 100) + 2 * static_cast<int>(i);
                 });
             });
     }},
    {"MPI_Rget_accumulate",
     [](int n) {
         Buffer exposed(n, mark(rank)), operand(n, mark(rank + 100)), fetched(n, 0);
         MPI_Win window;
         MPI_Win_create(exposed.data(), static_cast<MPI_Aint>(n) * sizeof(int), sizeof(int),
                        MPI_INFO_NULL, MPI_COMM_WORLD, &window);
         MPI_Win_lock_all(0, window);
         MPI_Request request;
         MPI_Rget_accumulate(operand.data(), n, MPI_INT, fetched.data(), n, MPI_INT,
                             (rank + 1) % ranks, 0, n, MPI_INT, MPI_SUM, window, &request);
         MPI_Wait(&request, MPI_STATUS_IGNORE);
         fetched.expect(0, n, mark((rank + 1) % ranks));
         MPI_Win_unlock_all(window);
         MPI_Barrier(MPI_COMM_WORLD);
         MPI_Win_free(&window);
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
    {"MPI_Compare_and_swap",
     [](int n) {
         one_sided(
             n,
             [](void* mine, int target, MPI_Win window) {
                 static int put = 5, expected;
                 expected = mark(target);
                 MPI_Compare_and_swap(&put, &expected, mine, MPI_INT, target, 0, window);
             },
             [](Buffer& mine, Buffer& exposed) {
                 mine.expect(0, 1, mark((rank + 1) % ranks));
                 exposed.expect(0, 1, 5);
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
    if (argc < 3) {
        std::fprintf(stderr,
                     "usage: mpi_calls host|cuda|SEED COUNT CALL..., or mpi_calls --list\n");
        return 2;
    }
    Buffer::memory = std::strcmp(argv[1], "host") == 0   ? Buffer::Memory::host
                     : std::strcmp(argv[1], "cuda") == 0 ? Buffer::Memory::gpu
                                                         : Buffer::Memory::random;
    if (Buffer::memory != Buffer::Memory::host) {
        check(cuda<CUresult (*)(unsigned)>("cuInit")(0));
        CUcontext context;
        check(cuda<CUresult (*)(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain")(&context, 0));
        check(cuda<CUresult (*)(CUcontext)>("cuCtxSetCurrent")(context));
    }
    const int count = std::atoi(argv[2]);
    std::vector<const Call*> chosen;
    for (const Call& call : kCalls) {
        if (argc == 3)
            chosen.push_back(&call);
    }
    for (int i = 3; i < argc; ++i) {
        const Call* call = std::find_if(std::begin(kCalls), std::end(kCalls), [&](const Call& c) {
            return std::strcmp(argv[i], c.name) == 0;
        });
        if (call == std::end(kCalls)) {
            std::fprintf(stderr, "no such call: %s\n", argv[i]);
            return 2;
        }
        chosen.push_back(call);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    Buffer::random.seed(static_cast<unsigned>(std::atoi(argv[1]) * 1000 + rank));
    for (const Call* call : chosen) {
        MPI_Barrier(MPI_COMM_WORLD); // where a rank dies now, it dies of this call
        if (rank == 0)
            std::printf("call: %s\n", call->name);
        std::fflush(stdout);
        const int before = wrong;
        call->run(count);
        if (wrong != before)
            std::printf("rank %d: FAILED %s: %d elements are wrong\n", rank, call->name,
                        wrong - before);
    }
    MPI_Finalize();
    return wrong == 0 ? 0 : 1;
}
