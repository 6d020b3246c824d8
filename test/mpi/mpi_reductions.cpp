// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_reductions SEED: large collective calls with UCX_GDR_MPI_COLL=gpu, nccl: every predefined
// operation on every type that it is defined for, every call and MPI_IN_PLACE, in GPU memory, and
// then each buffer in host or GPU memory at random; on communicators that come and go. Results are
// compared with those of the MPI library on host memory. The ranks take the GPUs in turn; one
// without a GPU has all of its own in host memory. Exits with 0, with 1 when they differ, with 77
// without a CUDA driver.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <numeric>
#include <random>
#include <vector>

#include <mpi.h>

#include "gpu.hpp"

namespace {

int rank, ranks;
bool has_gpu;
MPI_Comm comm;
std::mt19937 common; // the same on all ranks
std::mt19937 own;

enum class Kind { integer, real, complex, boolean, pair };

struct Type {
    MPI_Datatype type;
    Kind kind;
    std::function<void(char* element, int value)> set;
};

template <typename Value>
void set_value(char* element, int value)
{
    const auto converted = static_cast<Value>(value);
    std::memcpy(element, &converted, sizeof(converted));
}
template <typename Real>
void set_complex(char* element, int value)
{
    set_value<Real>(element, value);
    set_value<Real>(element + sizeof(Real), value % 3);
}
template <typename Value>
void set_pair(char* element, int value)
{
    struct Pair {
        Value value;
        int index;
    };
    std::memset(element, 0, sizeof(Pair));
    set_value<Value>(element + offsetof(Pair, value), value);
    set_value<int>(element + offsetof(Pair, index), value * 7 + rank);
}

const Type kTypes[] = {
    {MPI_INT8_T, Kind::integer, set_value<int8_t>},
    {MPI_INT16_T, Kind::integer, set_value<int16_t>},
    {MPI_INT, Kind::integer, set_value<int>},
    {MPI_LONG, Kind::integer, set_value<long>},
    {MPI_UINT8_T, Kind::integer, set_value<uint8_t>},
    {MPI_UNSIGNED_SHORT, Kind::integer, set_value<unsigned short>},
    {MPI_UINT32_T, Kind::integer, set_value<uint32_t>},
    {MPI_UNSIGNED_LONG_LONG, Kind::integer, set_value<unsigned long long>},
    {MPI_FLOAT, Kind::real, set_value<float>},
    {MPI_DOUBLE, Kind::real, set_value<double>},
    {MPI_C_FLOAT_COMPLEX, Kind::complex, set_complex<float>},
    {MPI_C_DOUBLE_COMPLEX, Kind::complex, set_complex<double>},
    {MPI_C_BOOL, Kind::boolean, [](char* element, int value) { *element = value % 2 != 0; }},
    {MPI_FLOAT_INT, Kind::pair, set_pair<float>},
    {MPI_DOUBLE_INT, Kind::pair, set_pair<double>},
    {MPI_LONG_INT, Kind::pair, set_pair<long>},
    {MPI_2INT, Kind::pair, set_pair<int>},
    {MPI_SHORT_INT, Kind::pair, set_pair<short>},
};

struct Op {
    MPI_Op op;
    std::vector<Kind> kinds;
};

const Op kOps[] = {
    {MPI_SUM, {Kind::integer, Kind::real, Kind::complex}},
    {MPI_PROD, {Kind::integer, Kind::real, Kind::complex}},
    {MPI_MIN, {Kind::integer, Kind::real}},
    {MPI_MAX, {Kind::integer, Kind::real}},
    {MPI_LAND, {Kind::integer, Kind::boolean}},
    {MPI_LOR, {Kind::integer, Kind::boolean}},
    {MPI_LXOR, {Kind::integer, Kind::boolean}},
    {MPI_BAND, {Kind::integer}},
    {MPI_BOR, {Kind::integer}},
    {MPI_BXOR, {Kind::integer}},
    {MPI_MINLOC, {Kind::pair}},
    {MPI_MAXLOC, {Kind::pair}},
};

struct Case {
    const Type& type;
    MPI_Op op;
    int count; // of each rank's block
    void *out, *in;
    bool in_place;
    int root;

    const void* from() const { return in_place ? MPI_IN_PLACE : out; }
    // Of all blocks together, so that these differ by one.
    int all() const { return count * ranks + 1; }
};

using Function = std::function<int(const Case&)>;

const Function kReductions[] = {
    [](const Case& c) { return MPI_Allreduce(c.from(), c.in, c.all(), c.type.type, c.op, comm); },
    [](const Case& c) {
        return MPI_Reduce(rank == c.root ? c.from() : c.out, c.in, c.all(), c.type.type, c.op,
                          c.root, comm);
    },
    [](const Case& c) {
        std::vector<int> counts(static_cast<size_t>(ranks), c.count);
        counts.front() -= counts.front() / 2;
        counts.back() += c.count / 2;
        return MPI_Reduce_scatter(c.from(), c.in, counts.data(), c.type.type, c.op, comm);
    },
    [](const Case& c) {
        return MPI_Reduce_scatter_block(c.from(), c.in, c.count, c.type.type, c.op, comm);
    },
};

const Function kMoves[] = {
    [](const Case& c) {
        return MPI_Allgather(c.from(), c.count, c.type.type, c.in, c.count, c.type.type, comm);
    },
    [](const Case& c) {
        return MPI_Alltoall(c.from(), c.count, c.type.type, c.in, c.count, c.type.type, comm);
    },
    [](const Case& c) { return MPI_Bcast(c.in, c.all(), c.type.type, c.root, comm); },
};

// Small values, whose sums and products are exact in every type's arithmetic, in any order.
std::vector<char> values(const Type& type, int count)
{
    MPI_Aint low, extent;
    MPI_Type_get_extent(type.type, &low, &extent);
    std::vector<char> bytes(static_cast<size_t>(count * extent));
    for (int i = 0; i < count; ++i)
        type.set(bytes.data() + i * extent, static_cast<int>(own() % 3));
    return bytes;
}

template <typename Real>
bool equal_numbers(const std::vector<char>& a, const std::vector<char>& b, size_t bytes)
{
    const auto number = [](const std::vector<char>& of, size_t at) {
        Real value;
        std::memcpy(&value, of.data() + at, sizeof(value));
        return value;
    };
    for (size_t at = 0; at < bytes; at += sizeof(Real)) {
        if (number(a, at) != number(b, at))
            return false;
    }
    return true;
}

// What MPI_IN_PLACE leaves in the blocks of other ranks is not defined, nor is what is in the
// padding of pairs; the sign of a zero in a complex product depends on the order.
bool same(const Type& type, const std::vector<char>& a, const std::vector<char>& b, size_t bytes)
{
    MPI_Aint low, extent;
    int size;
    MPI_Type_get_extent(type.type, &low, &extent);
    MPI_Type_size(type.type, &size);
    if (type.kind == Kind::complex)
        return size == 2 * sizeof(float) ? equal_numbers<float>(a, b, bytes)
                                         : equal_numbers<double>(a, b, bytes);
    const auto value = type.kind == Kind::pair ? static_cast<size_t>(size) - sizeof(int)
                                               : static_cast<size_t>(size);
    const size_t index = std::max(value, sizeof(int));
    for (size_t i = 0; i < bytes; ++i) {
        const size_t within = i % static_cast<size_t>(extent);
        const bool counts = within < value || (within >= index && within < index + sizeof(int));
        if (counts && a[i] != b[i])
            return false;
    }
    return true;
}

int compare(const Function& call, const Type& type, MPI_Op op, bool mixed, bool scatters,
            bool reduces)
{
    MPI_Aint low, extent;
    MPI_Type_get_extent(type.type, &low, &extent);
    const int count = static_cast<int>(300000 / ranks / extent + common() % 1000);
    const bool in_place = common() % 4 == 0;
    // MPICH 4.0.2 dies of MPI_Reduce in place at other roots, in host memory, too.
    const int root = in_place ? 0 : static_cast<int>(common() % static_cast<unsigned>(ranks));
    const int all = count * ranks + 1;
    const std::vector<char> out_values = values(type, all), in_values = values(type, all);
    gpu::Bytes host_out(out_values, false), host_in(in_values, false);
    const auto on_gpu = [mixed] { return (!mixed || own() % 2 == 0) && has_gpu; };
    gpu::Bytes out(out_values, on_gpu()), in(in_values, on_gpu());
    const int expected = call({type, op, count, host_out.data(), host_in.data(), in_place, root});
    const int result = call({type, op, count, out.data(), in.data(), in_place, root});
    const size_t bytes =
        scatters && in_place ? static_cast<size_t>((count - count / 2) * extent) : in_values.size();
    if (result == expected && out.bytes() == host_out.bytes() &&
        same(type, in.bytes(), host_in.bytes(), bytes))
        return 0;
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Type_get_name(type.type, name, &length);
    std::printf("rank %d of %d: FAILED: %s, %d elements each%s, %s\n", rank, ranks, name, count,
                in_place ? ", in place" : "", reduces ? "reduced" : "moved");
    return 1;
}

int every_pair(bool mixed)
{
    int wrong = 0;
    for (const Op& op : kOps) {
        for (const Type& type : kTypes) {
            if (std::ranges::find(op.kinds, type.kind) == op.kinds.end())
                continue;
            const size_t which = common() % std::size(kReductions);
            wrong += compare(kReductions[which], type, op.op, mixed, which >= 2, true);
        }
    }
    return wrong;
}

int every_call(bool mixed)
{
    int wrong = 0;
    for (const Type& type : {kTypes[9], kTypes[2]}) {
        for (size_t which = 0; which < std::size(kReductions); ++which)
            wrong += compare(kReductions[which], type, MPI_SUM, mixed, which >= 2, true);
        for (const Function& move : kMoves)
            wrong += compare(move, type, MPI_OP_NULL, mixed, false, false);
    }
    return wrong;
}

// As long as those that NCCL makes.
int long_bcast()
{
    constexpr size_t kBytes = 17 << 20;
    gpu::Bytes bytes(std::vector<char>(kBytes, static_cast<char>(rank)), has_gpu);
    MPI_Bcast(bytes.data(), kBytes, MPI_CHAR, ranks - 1, comm);
    if (std::ranges::count(bytes.bytes(), static_cast<char>(ranks - 1)) == kBytes)
        return 0;
    std::printf("rank %d of %d: FAILED: a long Bcast\n", rank, ranks);
    return 1;
}

} // namespace

int main(int argc, char** argv)
{
    if (argc != 2)
        return 2;
    has_gpu = gpu::exists();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (has_gpu)
        gpu::use(rank);
    if (rank == 0)
        MPI_Type_set_name(MPI_INT, "ours"); // on one rank: the type is what it was
    const auto seed = static_cast<unsigned>(std::atoi(argv[1]));
    own.seed(1000 * seed + static_cast<unsigned>(rank));
    comm = MPI_COMM_WORLD;
    MPI_Comm_size(comm, &ranks);
    common.seed(seed);
    int wrong = every_pair(false) + every_call(true) + long_bcast();
    for (int half = 0; half < 2; ++half) { // the ranks in the reverse order; then halves
        MPI_Comm_split(MPI_COMM_WORLD, half * (rank % 2), -rank, &comm);
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &ranks);
        common.seed(seed);
        wrong += every_call(half == 1);
        MPI_Comm_free(&comm);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    }
    std::printf("rank %d: %d wrong\n", rank, wrong);
    MPI_Finalize();
    return wrong == 0 ? 0 : 1;
}
