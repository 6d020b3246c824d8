// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_reductions SEED [pairs]: large collective calls with UCX_GDR_MPI_COLL=gpu, nccl: every
// predefined operation on every type that MPI 4.0 permits it for, every call and MPI_IN_PLACE, in
// GPU memory, and then each buffer in host or GPU memory at random; on communicators that come and
// go. With "pairs" only those operations and types that GPUs reduce, in GPU memory: nothing of them
// is staged. Results are compared with those of the MPI library on host memory; types that it lacks
// are named. The ranks take the GPUs in turn; one without a GPU has all of its own in host memory.
// Exits with 0, with 1 when they differ, with 77 without a CUDA driver.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
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

// Which not every MPI has a name for.
#ifndef MPI_INTEGER16
#define MPI_INTEGER16 MPI_DATATYPE_NULL
#endif
#ifndef MPI_REAL2
#define MPI_REAL2 MPI_DATATYPE_NULL
#endif
#ifndef MPI_COMPLEX4
#define MPI_COMPLEX4 MPI_DATATYPE_NULL
#endif
#ifndef MPI_LOGICAL1
#define MPI_LOGICAL1 MPI_DATATYPE_NULL
#define MPI_LOGICAL2 MPI_DATATYPE_NULL
#define MPI_LOGICAL4 MPI_DATATYPE_NULL
#define MPI_LOGICAL8 MPI_DATATYPE_NULL
#endif

// As MPI's table of predefined operations has them.
enum class Kind {
    c_integer,
    integer, // Fortran's, and those of both languages
    real,
    complex,
    logical,
    byte,
    integer_pair, // with an int
    real_pair,    // with an int
    fortran_pair, // of two reals
};

struct Type {
    const char* name;
    MPI_Datatype type;
    Kind kind;
    bool by_gpu = true;
    int size = 0;
    int extent = 0;

    void set(char* element, int value) const;
    bool same(const char* a, const char* b) const;

  private:
    bool in_two() const { return kind == Kind::complex || kind == Kind::fortran_pair; }
    bool with_int() const { return kind == Kind::integer_pair || kind == Kind::real_pair; }
    int value_size() const
    {
        return in_two() ? size / 2 : with_int() ? size - static_cast<int>(sizeof(int)) : size;
    }
    int second_at() const
    {
        return with_int() ? std::max<int>(value_size(), sizeof(int)) : size / 2;
    }
};

#define NAMED(name, ...)                                                                           \
    {                                                                                              \
#name, name, __VA_ARGS__                                                                   \
    }
const Type kNamed[] = {
    NAMED(MPI_SIGNED_CHAR, Kind::c_integer),
    NAMED(MPI_UNSIGNED_CHAR, Kind::c_integer),
    NAMED(MPI_SHORT, Kind::c_integer),
    NAMED(MPI_UNSIGNED_SHORT, Kind::c_integer),
    NAMED(MPI_INT, Kind::c_integer),
    NAMED(MPI_UNSIGNED, Kind::c_integer),
    NAMED(MPI_LONG, Kind::c_integer),
    NAMED(MPI_UNSIGNED_LONG, Kind::c_integer),
    NAMED(MPI_LONG_LONG_INT, Kind::c_integer),
    NAMED(MPI_LONG_LONG, Kind::c_integer),
    NAMED(MPI_UNSIGNED_LONG_LONG, Kind::c_integer),
    NAMED(MPI_INT8_T, Kind::c_integer),
    NAMED(MPI_INT16_T, Kind::c_integer),
    NAMED(MPI_INT32_T, Kind::c_integer),
    NAMED(MPI_INT64_T, Kind::c_integer),
    NAMED(MPI_UINT8_T, Kind::c_integer),
    NAMED(MPI_UINT16_T, Kind::c_integer),
    NAMED(MPI_UINT32_T, Kind::c_integer),
    NAMED(MPI_UINT64_T, Kind::c_integer),
    NAMED(MPI_AINT, Kind::integer),
    NAMED(MPI_OFFSET, Kind::integer),
    NAMED(MPI_COUNT, Kind::integer),
    NAMED(MPI_INTEGER, Kind::integer),
    NAMED(MPI_INTEGER1, Kind::integer),
    NAMED(MPI_INTEGER2, Kind::integer),
    NAMED(MPI_INTEGER4, Kind::integer),
    NAMED(MPI_INTEGER8, Kind::integer),
    NAMED(MPI_INTEGER16, Kind::integer, false),
    NAMED(MPI_FLOAT, Kind::real),
    NAMED(MPI_DOUBLE, Kind::real),
    NAMED(MPI_LONG_DOUBLE, Kind::real, false),
    NAMED(MPI_REAL, Kind::real),
    NAMED(MPI_DOUBLE_PRECISION, Kind::real),
    NAMED(MPI_REAL2, Kind::real, false),
    NAMED(MPI_REAL4, Kind::real),
    NAMED(MPI_REAL8, Kind::real),
    NAMED(MPI_REAL16, Kind::real, false),
    NAMED(MPI_C_COMPLEX, Kind::complex),
    NAMED(MPI_C_FLOAT_COMPLEX, Kind::complex),
    NAMED(MPI_C_DOUBLE_COMPLEX, Kind::complex),
    NAMED(MPI_C_LONG_DOUBLE_COMPLEX, Kind::complex, false),
    NAMED(MPI_CXX_FLOAT_COMPLEX, Kind::complex),
    NAMED(MPI_CXX_DOUBLE_COMPLEX, Kind::complex),
    NAMED(MPI_CXX_LONG_DOUBLE_COMPLEX, Kind::complex, false),
    NAMED(MPI_COMPLEX, Kind::complex),
    NAMED(MPI_DOUBLE_COMPLEX, Kind::complex),
    NAMED(MPI_COMPLEX4, Kind::complex, false),
    NAMED(MPI_COMPLEX8, Kind::complex),
    NAMED(MPI_COMPLEX16, Kind::complex),
    NAMED(MPI_COMPLEX32, Kind::complex, false),
    NAMED(MPI_C_BOOL, Kind::logical),
    NAMED(MPI_CXX_BOOL, Kind::logical),
    NAMED(MPI_LOGICAL, Kind::logical),
    NAMED(MPI_LOGICAL1, Kind::logical),
    NAMED(MPI_LOGICAL2, Kind::logical),
    NAMED(MPI_LOGICAL4, Kind::logical),
    NAMED(MPI_LOGICAL8, Kind::logical),
    NAMED(MPI_BYTE, Kind::byte),
    NAMED(MPI_FLOAT_INT, Kind::real_pair),
    NAMED(MPI_DOUBLE_INT, Kind::real_pair),
    NAMED(MPI_LONG_DOUBLE_INT, Kind::real_pair, false),
    NAMED(MPI_LONG_INT, Kind::integer_pair),
    NAMED(MPI_2INT, Kind::integer_pair),
    NAMED(MPI_SHORT_INT, Kind::integer_pair),
    NAMED(MPI_2INTEGER, Kind::integer_pair),
    NAMED(MPI_2REAL, Kind::fortran_pair),
    NAMED(MPI_2DOUBLE_PRECISION, Kind::fortran_pair),
};

std::vector<Type> types; // that this MPI has

void find_types()
{
    std::vector<Type> all(std::begin(kNamed), std::end(kNamed));
    for (const int digits : {2, 4, 9, 18}) {
        all.push_back({"MPI_Type_create_f90_integer", MPI_DATATYPE_NULL, Kind::integer});
        MPI_Type_create_f90_integer(digits, &all.back().type);
    }
    for (const int digits : {6, 15}) {
        all.push_back({"MPI_Type_create_f90_real", MPI_DATATYPE_NULL, Kind::real});
        MPI_Type_create_f90_real(digits, MPI_UNDEFINED, &all.back().type);
        all.push_back({"MPI_Type_create_f90_complex", MPI_DATATYPE_NULL, Kind::complex});
        MPI_Type_create_f90_complex(digits, MPI_UNDEFINED, &all.back().type);
    }
    for (Type& type : all) {
        if (type.type != MPI_DATATYPE_NULL) {
            MPI_Type_size(type.type, &type.size);
        }
        if (type.size > 0) {
            MPI_Aint low, extent;
            MPI_Type_get_extent(type.type, &low, &extent);
            type.extent = static_cast<int>(extent);
            types.push_back(type);
        } else if (rank == 0) {
            std::printf("this MPI lacks %s\n", type.name);
        }
    }
}

template <typename Real>
void set_real(char* number, int value)
{
    const auto converted = static_cast<Real>(value);
    std::memcpy(number, &converted, sizeof(converted));
}
void set_real(char* number, int size, int value)
{
    switch (size) {
    case sizeof(float):
        return set_real<float>(number, value);
    case sizeof(double):
        return set_real<double>(number, value);
    case sizeof(long double): // MPI_REAL16, too, which may be another type: a number in any case
        return set_real<long double>(number, value);
    }
}
void set_integer(char* number, int size, int value) // not negative
{
    std::memset(number, 0, static_cast<size_t>(size));
    std::memcpy(number, &value, static_cast<size_t>(std::min<int>(size, sizeof(value))));
}

void Type::set(char* element, int value) const
{
    const int index = value * 7 + rank;
    switch (kind) {
    case Kind::real:
        return set_real(element, size, value);
    case Kind::complex:
        set_real(element, size / 2, value);
        return set_real(element + size / 2, size / 2, value % 3);
    case Kind::logical: // 0 and 1, as gfortran has them
        return set_integer(element, size, value % 2);
    case Kind::integer_pair:
        set_integer(element, value_size(), value);
        return set_integer(element + second_at(), sizeof(int), index);
    case Kind::real_pair:
        set_real(element, value_size(), value);
        return set_integer(element + second_at(), sizeof(int), index);
    case Kind::fortran_pair:
        set_real(element, size / 2, value);
        return set_real(element + size / 2, size / 2, index);
    default:
        return set_integer(element, size, value);
    }
}

template <typename Real>
bool equal_numbers(const char* a, const char* b)
{
    Real first, second;
    std::memcpy(&first, a, sizeof(Real));
    std::memcpy(&second, b, sizeof(Real));
    return first == second;
}

// What is in the padding of pairs is not defined; the sign of a zero in a complex product depends
// on the order.
bool Type::same(const char* a, const char* b) const
{
    const int value = value_size(), second = second_at();
    if (kind == Kind::complex && value == sizeof(float)) {
        return equal_numbers<float>(a, b) && equal_numbers<float>(a + second, b + second);
    }
    if (kind == Kind::complex && value == sizeof(double)) {
        return equal_numbers<double>(a, b) && equal_numbers<double>(a + second, b + second);
    }
    return std::memcmp(a, b, static_cast<size_t>(value)) == 0 &&
           (value == size ||
            std::memcmp(a + second, b + second, static_cast<size_t>(size - value)) == 0);
}

struct Op {
    const char* name;
    MPI_Op op;
    std::vector<Kind> kinds;
};

const std::vector<Kind> kNumbers = {Kind::c_integer, Kind::integer, Kind::real, Kind::complex};
const std::vector<Kind> kOrdered = {Kind::c_integer, Kind::integer, Kind::real};
const std::vector<Kind> kLogical = {Kind::c_integer, Kind::logical};
const std::vector<Kind> kBits = {Kind::c_integer, Kind::integer, Kind::byte};
const std::vector<Kind> kPairs = {Kind::integer_pair, Kind::real_pair, Kind::fortran_pair};

const Op kOps[] = {
    NAMED(MPI_SUM, kNumbers),  NAMED(MPI_PROD, kNumbers), NAMED(MPI_MIN, kOrdered),
    NAMED(MPI_MAX, kOrdered),  NAMED(MPI_LAND, kLogical), NAMED(MPI_LOR, kLogical),
    NAMED(MPI_LXOR, kLogical), NAMED(MPI_BAND, kBits),    NAMED(MPI_BOR, kBits),
    NAMED(MPI_BXOR, kBits),    NAMED(MPI_MINLOC, kPairs), NAMED(MPI_MAXLOC, kPairs),
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
    std::vector<char> bytes(static_cast<size_t>(count * type.extent));
    for (int i = 0; i < count; ++i) {
        type.set(bytes.data() + i * type.extent, static_cast<int>(own() % 3));
    }
    return bytes;
}

bool same(const Type& type, const std::vector<char>& a, const std::vector<char>& b, int count)
{
    for (int i = 0; i < count; ++i) {
        if (!type.same(a.data() + i * type.extent, b.data() + i * type.extent)) {
            return false;
        }
    }
    return true;
}

int error_class(int code)
{
    int its = MPI_SUCCESS;
    MPI_Error_class(code, &its);
    return its;
}

int compare(const Function& call, const Type& type, const Op& op, bool mixed, bool scatters)
{
    const int count = static_cast<int>(300000 / ranks / type.extent + common() % 1000);
    const bool in_place = common() % 4 == 0;
    // MPICH 4.0.2 dies of MPI_Reduce in place at other roots, in host memory, too.
    const int root = in_place ? 0 : static_cast<int>(common() % static_cast<unsigned>(ranks));
    const int all = count * ranks + 1;
    const std::vector<char> out_values = values(type, all), in_values = values(type, all);
    gpu::Bytes host_out(out_values, false), host_in(in_values, false);
    const auto on_gpu = [mixed] { return (!mixed || own() % 2 == 0) && has_gpu; };
    gpu::Bytes out(out_values, on_gpu()), in(in_values, on_gpu());
    const int expected =
        call({type, op.op, count, host_out.data(), host_in.data(), in_place, root});
    const int result = call({type, op.op, count, out.data(), in.data(), in_place, root});
    // What MPI_IN_PLACE leaves in the blocks of other ranks is not defined.
    const int defined = scatters && in_place ? count - count / 2 : all;
    if (error_class(result) == error_class(expected) && out.bytes() == host_out.bytes() &&
        same(type, in.bytes(), host_in.bytes(), defined)) {
        return 0;
    }
    std::printf("rank %d of %d: FAILED: %s %s of %d bytes, %d elements each%s\n", rank, ranks,
                op.name, type.name, type.size, count, in_place ? ", in place" : "");
    return 1;
}

int every_pair(bool by_gpu_alone)
{
    int wrong = 0;
    for (const Op& op : kOps) {
        for (const Type& type : types) {
            if (std::ranges::find(op.kinds, type.kind) == op.kinds.end() ||
                (by_gpu_alone && !type.by_gpu)) {
                continue;
            }
            const size_t which = common() % std::size(kReductions);
            wrong += compare(kReductions[which], type, op, false, which >= 2);
        }
    }
    return wrong;
}

int every_call(bool mixed)
{
    int wrong = 0;
    for (const Type& type : types) {
        if (type.type != MPI_DOUBLE && type.type != MPI_INT) {
            continue;
        }
        for (size_t which = 0; which < std::size(kReductions); ++which) {
            wrong += compare(kReductions[which], type, kOps[0], mixed, which >= 2);
        }
        for (const Function& move : kMoves) {
            wrong += compare(move, type, {"moved", MPI_OP_NULL, {}}, mixed, false);
        }
    }
    return wrong;
}

// As long as those that NCCL makes.
int long_bcast()
{
    constexpr size_t kBytes = 17 << 20;
    gpu::Bytes bytes(std::vector<char>(kBytes, static_cast<char>(rank)), has_gpu);
    MPI_Bcast(bytes.data(), kBytes, MPI_CHAR, ranks - 1, comm);
    if (std::ranges::count(bytes.bytes(), static_cast<char>(ranks - 1)) == kBytes) {
        return 0;
    }
    std::printf("rank %d of %d: FAILED: a long Bcast\n", rank, ranks);
    return 1;
}

} // namespace

int main(int argc, char** argv)
{
    const bool pairs = argc == 3 && std::strcmp(argv[2], "pairs") == 0;
    if (argc != 2 && !pairs) {
        return 2;
    }
    has_gpu = gpu::exists();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (has_gpu) {
        gpu::use(rank);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); // not every MPI reduces all
    find_types();
    if (rank == 0) {
        MPI_Type_set_name(MPI_INT, "ours"); // on one rank: the type is what it was
    }
    const auto seed = static_cast<unsigned>(std::atoi(argv[1]));
    own.seed(1000 * seed + static_cast<unsigned>(rank));
    comm = MPI_COMM_WORLD;
    MPI_Comm_size(comm, &ranks);
    common.seed(seed);
    int wrong = every_pair(pairs);
    if (!pairs) {
        wrong += every_call(true) + long_bcast();
    }
    for (int half = 0; half < 2 && !pairs; ++half) { // the ranks in the reverse order; then halves
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
