// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_types SEED ROUNDS: calls with datatypes at random, first on host memory, then on buffers that
// are each in host or GPU memory at random: every byte has to be the same, those in the gaps, too.
// Before them a round that does not depend on the seed: all calls in GPU memory, with a type with
// gaps of which each message is long enough to be packed within the GPU. Exits with 0, with 1 when
// a byte is wrong, with 77 without a CUDA driver.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <optional>
#include <random>
#include <vector>

#include <mpi.h>

#include "calls/library.hpp"
#include "gpu.hpp"

namespace {

int rank, ranks;
std::mt19937 common; // the same on all ranks
std::mt19937 own;

int below(std::mt19937& random, int limit)
{
    return static_cast<int>(random() % static_cast<unsigned>(limit));
}

// Of a constructor of large counts, where the MPI has them.
MPI_Datatype any_large_type(int count, int length, int stride, MPI_Datatype old)
{
    MPI_Datatype made;
#if MPI_VERSION >= 4 && !defined(OPEN_MPI)
    MPI_Aint low, extent;
    MPI_Type_get_extent(old, &low, &extent);
    const std::vector<MPI_Count> lengths(static_cast<size_t>(count), length);
    std::vector<MPI_Count> places;
    for (int i = 0; i < count; ++i) {
        places.push_back(i * stride);
    }
    std::vector<MPI_Count> addresses;
    for (const MPI_Count place : places) {
        addresses.push_back(place * extent + (place > 0 ? 3 : 0));
    }
    const std::vector<MPI_Datatype> types(static_cast<size_t>(count), old);
    const MPI_Count whole[] = {count + 2, 4}, part[] = {count, 2}, start[] = {1, 2};
    const int kinds[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK}, processes[] = {2, 2};
    const int blocks[] = {length, MPI_DISTRIBUTE_DFLT_DARG};
    switch (below(common, 10)) {
    case 0:
        MPI_Type_contiguous_c(count, old, &made);
        break;
    case 1:
        MPI_Type_vector_c(count, length, stride, old, &made);
        break;
    case 2:
        MPI_Type_create_hvector_c(count, length, stride * extent + 5, old, &made);
        break;
    case 3:
        MPI_Type_indexed_c(count, lengths.data(), places.data(), old, &made);
        break;
    case 4:
        MPI_Type_create_hindexed_c(count, lengths.data(), addresses.data(), old, &made);
        break;
    case 5:
        MPI_Type_create_indexed_block_c(count, length, places.data(), old, &made);
        break;
    case 6:
        MPI_Type_create_hindexed_block_c(count, length, addresses.data(), old, &made);
        break;
    case 7:
        MPI_Type_create_struct_c(count, lengths.data(), addresses.data(), types.data(), &made);
        break;
    case 8:
        MPI_Type_create_subarray_c(2, whole, part, start, MPI_ORDER_FORTRAN, old, &made);
        break;
    default:
        MPI_Type_create_darray_c(4, 1, 2, whole, kinds, blocks, processes, MPI_ORDER_C, old, &made);
    }
#else
    MPI_Type_vector(count, length, stride, old, &made);
#endif
    return made;
}

// A type without two elements in one place; fresh: not to be kept.
MPI_Datatype any_type(int depth)
{
    MPI_Datatype made;
    if (depth == 0) {
        const MPI_Datatype named[] = {MPI_CHAR, MPI_SHORT, MPI_INT, MPI_DOUBLE};
        MPI_Type_dup(named[below(common, 4)], &made);
        return made;
    }
    MPI_Datatype old = any_type(depth - 1);
    MPI_Aint low, extent;
    MPI_Type_get_true_extent(old, &low, &extent);
    const int count = 1 + below(common, 12), length = 1 + below(common, 3);
    const int stride = length + below(common, 3);
    switch (below(common, 9)) {
    case 0:
        MPI_Type_contiguous(count, old, &made);
        break;
    case 1: {
        // Single bytes a byte apart backwards are forwards to Open MPI 4.1.4.
        const bool backwards = below(common, 3) == 0 && stride * extent > 1;
        MPI_Type_vector(count, length, backwards ? -stride : stride, old, &made);
        break;
    }
    case 2: {
        MPI_Datatype wide;
        MPI_Type_create_resized(old, low, extent + below(common, 9), &wide);
        MPI_Type_contiguous(count, wide, &made);
        MPI_Type_free(&wide);
        break;
    }
    case 3: {
        std::vector<int> lengths, places;
        for (int i = 0, at = 0; i < count; ++i) {
            lengths.push_back(i == 0 ? 1 : below(common, 4));
            places.push_back(at);
            at += lengths.back() + below(common, 3);
        }
        MPI_Type_indexed(count, lengths.data(), places.data(), old, &made);
        break;
    }
    case 4: {
        MPI_Aint old_low, old_extent;
        MPI_Type_get_extent(old, &old_low, &old_extent);
        std::vector<int> lengths;
        std::vector<MPI_Aint> places;
        MPI_Aint at = 0;
        for (int i = 0; i < count; ++i) {
            lengths.push_back(1 + below(common, 2));
            places.push_back(at);
            at += lengths.back() * std::max(old_extent, extent) + below(common, 5);
        }
        const std::vector<MPI_Datatype> types(static_cast<size_t>(count), old);
        MPI_Type_create_struct(count, lengths.data(), places.data(), types.data(), &made);
        break;
    }
    case 5: {
        const int whole[] = {count + 2, 4, 5}, part[] = {count, 1 + below(common, 3), 2};
        const int start[] = {below(common, 3), 1, below(common, 4)};
        MPI_Type_create_subarray(3, whole, part, start,
                                 below(common, 2) == 0 ? MPI_ORDER_C : MPI_ORDER_FORTRAN, old,
                                 &made);
        break;
    }
    case 6: { // of a grid of 3 x 2 processes
        const int whole[] = {count, 7, 3};
        const int kinds[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_NONE};
        const int blocks[] = {below(common, 2) == 0 ? MPI_DISTRIBUTE_DFLT_DARG : length,
                              MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
        const int processes[] = {3, 2, 1};
        MPI_Type_create_darray(6, below(common, 2), 3, whole, kinds, blocks, processes,
                               below(common, 2) == 0 ? MPI_ORDER_C : MPI_ORDER_FORTRAN, old, &made);
        break;
    }
    case 7:
        made = any_large_type(count, length, stride, old);
        break;
    default:
        MPI_Type_create_hvector(count, length, (extent + 7) * stride, old, &made);
    }
    MPI_Type_free(&old);
    return made;
}

// The buffer's address and all bytes of so many elements, in host or GPU memory.
class Buffer {
  public:
    Buffer(MPI_Datatype type, int count, bool on_gpu, unsigned seed)
    {
        MPI_Aint low, extent, true_low, true_extent;
        MPI_Type_get_extent(type, &low, &extent);
        MPI_Type_get_true_extent(type, &true_low, &true_extent);
        const MPI_Aint last = extent * (count - 1);
        first_ = std::min<MPI_Aint>(0, true_low + std::min<MPI_Aint>(0, last));
        const MPI_Aint end = true_low + true_extent + std::max<MPI_Aint>(0, last);
        std::vector<char> bytes(static_cast<size_t>(std::max<MPI_Aint>(0, end) - first_));
        std::mt19937 random(seed);
        for (char& byte : bytes) {
            byte = static_cast<char>(random());
        }
        bytes_.emplace(std::move(bytes), on_gpu);
    }

    void* data() { return static_cast<char*>(bytes_->data()) - first_; }
    const std::vector<char>& bytes() { return bytes_->bytes(); }

  private:
    std::optional<gpu::Bytes> bytes_;
    MPI_Aint first_;
};

struct Round {
    MPI_Datatype type;
    int count;
    void *out, *in; // of ranks * count elements
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;

    int received(const MPI_Status& status) const
    {
        int elements = 0;
        MPI_Get_count(&status, type, &elements);
        return elements;
    }
};

// Sums of bytes: a type with gaps may be reduced by an operation of the user's alone. (Open MPI
// 4.1.4 corrupts its heap in MPI_Allreduce of some such types in host memory.)
MPI_Datatype summed_type;
void sum(void* in, void* both, int* count, MPI_Datatype*)
{
    int size;
    MPI_Type_size(summed_type, &size);
    const int bytes = size * *count;
    std::vector<unsigned char> a(static_cast<size_t>(bytes)), b(a);
    int at = 0;
    MPI_Pack(in, *count, summed_type, a.data(), bytes, &at, MPI_COMM_SELF);
    at = 0;
    MPI_Pack(both, *count, summed_type, b.data(), bytes, &at, MPI_COMM_SELF);
    for (size_t i = 0; i < a.size(); ++i) {
        b[i] = static_cast<unsigned char>(a[i] + b[i]);
    }
    at = 0;
    MPI_Unpack(b.data(), bytes, &at, both, *count, summed_type, MPI_COMM_SELF);
}

// Each gives what else than the buffers has to be the same.
const std::function<int(const Round&)> kCalls[] = {
    [](const Round& r) {
        MPI_Status status;
        MPI_Sendrecv(r.out, r.count, r.type, r.next, 1, r.in, r.count, r.type, r.previous, 1,
                     MPI_COMM_WORLD, &status);
        return r.received(status);
    },
    [](const Round& r) { // less than was asked for
        MPI_Status status;
        MPI_Sendrecv(r.out, r.count, r.type, r.next, 1, r.in, r.count * ranks, r.type, r.previous,
                     1, MPI_COMM_WORLD, &status);
        return r.received(status);
    },
    [](const Round& r) {
        MPI_Request requests[2];
        MPI_Status statuses[2];
        MPI_Irecv(r.in, r.count, r.type, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(r.out, r.count, r.type, r.next, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, statuses);
        return r.received(statuses[0]);
    },
    [](const Round& r) {
        if (calls::open_mpi() >= calls::Series{5, 0}) {
            return 0; // of some types (seed 28939) it moves wrong bytes, in host memory, too
        }
        MPI_Request requests[2];
        MPI_Status statuses[2];
        MPI_Recv_init(r.in, r.count, r.type, r.previous, 3, MPI_COMM_WORLD, &requests[0]);
        MPI_Ssend_init(r.out, r.count, r.type, r.next, 3, MPI_COMM_WORLD, &requests[1]);
        for (int i = 0; i < 3; ++i) {
            MPI_Startall(2, requests);
            MPI_Waitall(2, requests, statuses);
        }
        MPI_Request_free(&requests[0]);
        MPI_Request_free(&requests[1]);
        return r.received(statuses[0]);
    },
    [](const Round& r) {
        MPI_Request request;
        MPI_Isend(r.out, r.count, r.type, r.next, 4, MPI_COMM_WORLD, &request);
        MPI_Status status;
        MPI_Probe(r.previous, 4, MPI_COMM_WORLD, &status);
        MPI_Recv(r.in, r.received(status), r.type, r.previous, 4, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        return r.received(status);
    },
    [](const Round& r) { // into nothing, and from nobody
        MPI_Status status;
        MPI_Sendrecv(r.out, r.count, r.type, MPI_PROC_NULL, 5, r.in, r.count, r.type, MPI_PROC_NULL,
                     5, MPI_COMM_WORLD, &status);
        return r.received(status);
    },
    [](const Round& r) {
        MPI_Sendrecv_replace(r.in, r.count, r.type, r.next, 6, r.previous, 6, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
        return 0;
    },
    [](const Round& r) {
        return MPI_Bcast(rank == ranks - 1 ? r.out : r.in, r.count, r.type, ranks - 1,
                         MPI_COMM_WORLD);
    },
    [](const Round& r) {
        return MPI_Allgather(r.out, r.count, r.type, r.in, r.count, r.type, MPI_COMM_WORLD);
    },
    [](const Round& r) {
        return MPI_Alltoall(r.out, r.count, r.type, r.in, r.count, r.type, MPI_COMM_WORLD);
    },
    [](const Round& r) {
        return MPI_Gather(r.out, r.count, r.type, r.in, r.count, r.type, 0, MPI_COMM_WORLD);
    },
    [](const Round& r) {
        MPI_Op op;
        MPI_Op_create(sum, 1, &op);
        summed_type = r.type;
        const int result = MPI_Reduce_local(r.out, r.in, r.count, r.type, op);
        MPI_Op_free(&op);
        return result;
    },
    [](const Round& r) {
        int size, at = 0;
        MPI_Pack_size(r.count, r.type, MPI_COMM_WORLD, &size);
        std::vector<char> packed(static_cast<size_t>(size));
        MPI_Pack(r.out, r.count, r.type, packed.data(), size, &at, MPI_COMM_WORLD);
        const int end = at;
        at = 0;
        MPI_Unpack(packed.data(), size, &at, r.in, r.count, r.type, MPI_COMM_WORLD);
        return end + at;
    },
};

enum class Where { gpu, anywhere };

bool same_on_gpu(size_t call, MPI_Datatype type, int count, Where where)
{
    const auto on_gpu = [where] { return where == Where::gpu || below(own, 3) != 0; };
    const int all = count * ranks;
    const unsigned seed = own();
    Buffer host_out(type, all, false, seed), host_in(type, all, false, seed + 1);
    const bool out_on_gpu = on_gpu(), in_on_gpu = on_gpu();
    Buffer out(type, all, out_on_gpu, seed), in(type, all, in_on_gpu, seed + 1);
    const int expected = kCalls[call]({type, count, host_out.data(), host_in.data()});
    MPI_Barrier(MPI_COMM_WORLD); // MPI_ANY_SOURCE
    const int result = kCalls[call]({type, count, out.data(), in.data()});
    MPI_Barrier(MPI_COMM_WORLD);
    if (result == expected && out.bytes() == host_out.bytes() && in.bytes() == host_in.bytes()) {
        return true;
    }
    int size;
    MPI_Type_size(type, &size);
    std::printf("rank %d: FAILED: call %zu, %d elements of %d bytes, from %s to %s: %d, not %d\n",
                rank, call, count, size, out_on_gpu ? "GPU" : "host", in_on_gpu ? "GPU" : "host",
                result, expected);
    return false;
}

// Whether the MPI itself moves these elements in host memory as it packs and unpacks them. Open MPI
// 5.0.7 over UCX does not with some types (seed 2362).
bool moves_what_it_packs(MPI_Datatype type, int count)
{
    Buffer out(type, count, false, 1), moved(type, count, false, 2),
        unpacked(type, count, false, 2);
    kCalls[0]({type, count, out.data(), moved.data()});
    kCalls[std::size(kCalls) - 1]({type, count, out.data(), unpacked.data()});
    const int same = moved.bytes() == unpacked.bytes() ? 1 : 0;
    int all = 0;
    MPI_Allreduce(&same, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all != 0;
}

// How many calls were wrong. Frees the type.
int every_call(MPI_Datatype type, int count, Where where)
{
    int wrong = 0;
    MPI_Type_commit(&type);
    if (calls::open_mpi() >= calls::Series{5, 0} && !moves_what_it_packs(type, count)) {
        std::printf("rank %d: the MPI moves a type wrong in host memory, left out\n", rank);
    } else {
        for (size_t call = 0; call < std::size(kCalls); ++call) {
            wrong += same_on_gpu(call, type, count, where) ? 0 : 1;
        }
    }
    MPI_Type_free(&type);
    return wrong;
}

// Half of 160,000 bytes.
int long_column()
{
    MPI_Datatype column;
    MPI_Type_vector(5000, 2, 4, MPI_INT, &column);
    return every_call(column, 2, Where::gpu);
}

// From the first byte of an element to the last of it or of its gap.
MPI_Aint room_of(MPI_Datatype type)
{
    MPI_Aint low, extent, true_extent;
    MPI_Type_get_extent(type, &low, &extent);
    MPI_Type_get_true_extent(type, &low, &true_extent);
    return std::max(std::abs(extent), true_extent);
}

int random_type()
{
    constexpr MPI_Aint kMostBytes = 200000, kLongest = 1000000; // one element may be longer
    MPI_Datatype type = any_type(1 + below(common, 3));
    while (room_of(type) > kLongest) {
        MPI_Type_free(&type);
        type = any_type(1 + below(common, 3));
    }
    const int most =
        static_cast<int>(std::min<MPI_Aint>(200, 1 + kMostBytes / (1 + room_of(type))));
    const int count = 1 + below(common, below(common, 3) == 0 ? most : std::min(most, 4));
    return every_call(type, count, Where::anywhere);
}

} // namespace

int main(int argc, char** argv)
{
    if (argc != 3) {
        return 2;
    }
    gpu::use(gpu::rank_in_job());
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const auto seed = static_cast<unsigned>(std::atoi(argv[1]));
    common.seed(seed);
    own.seed(1000 * seed + static_cast<unsigned>(rank));
    int wrong = long_column();
    for (int round = 0; round < std::atoi(argv[2]); ++round) {
        wrong += random_type();
    }
    std::printf("rank %d: %d wrong\n", rank, wrong);
    MPI_Finalize();
    return wrong == 0 ? 0 : 1;
}
