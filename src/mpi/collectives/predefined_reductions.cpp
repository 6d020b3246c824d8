// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Types are recognised by their names, which all MPI libraries share; operations have no names.
// Which operations are permitted is in MPI 4.0's section "Predefined Reduction Operations".
#include "mpi/collectives/predefined_reductions.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <map>
#include <mutex>
#include <string_view>

namespace gdr::mpi {

namespace {

using kernels::Operation;
using kernels::Type;

enum class Class {
    signed_integer,
    unsigned_integer,
    other_integer, // Fortran's, and those of both languages
    real,
    complex,
    boolean,
    logical, // Fortran's
    byte,
    pair,
};

struct Named {
    std::string_view name;
    Class kind;
    Type pair = Type::two_int; // if the class is pair
};

constexpr Named kTypes[] = {
    {"MPI_SIGNED_CHAR", Class::signed_integer},
    {"MPI_SHORT", Class::signed_integer},
    {"MPI_INT", Class::signed_integer},
    {"MPI_LONG", Class::signed_integer},
    {"MPI_LONG_LONG", Class::signed_integer},
    {"MPI_LONG_LONG_INT", Class::signed_integer},
    {"MPI_INT8_T", Class::signed_integer},
    {"MPI_INT16_T", Class::signed_integer},
    {"MPI_INT32_T", Class::signed_integer},
    {"MPI_INT64_T", Class::signed_integer},
    {"MPI_AINT", Class::other_integer},
    {"MPI_OFFSET", Class::other_integer},
    {"MPI_COUNT", Class::other_integer},
    {"MPI_INTEGER", Class::other_integer},
    {"MPI_INTEGER1", Class::other_integer},
    {"MPI_INTEGER2", Class::other_integer},
    {"MPI_INTEGER4", Class::other_integer},
    {"MPI_INTEGER8", Class::other_integer},
    {"MPI_UNSIGNED_CHAR", Class::unsigned_integer},
    {"MPI_UNSIGNED_SHORT", Class::unsigned_integer},
    {"MPI_UNSIGNED", Class::unsigned_integer},
    {"MPI_UNSIGNED_LONG", Class::unsigned_integer},
    {"MPI_UNSIGNED_LONG_LONG", Class::unsigned_integer},
    {"MPI_UINT8_T", Class::unsigned_integer},
    {"MPI_UINT16_T", Class::unsigned_integer},
    {"MPI_UINT32_T", Class::unsigned_integer},
    {"MPI_UINT64_T", Class::unsigned_integer},
    {"MPI_FLOAT", Class::real},
    {"MPI_DOUBLE", Class::real},
    {"MPI_REAL", Class::real},
    {"MPI_REAL4", Class::real},
    {"MPI_REAL8", Class::real},
    {"MPI_DOUBLE_PRECISION", Class::real},
    {"MPI_C_COMPLEX", Class::complex},
    {"MPI_C_FLOAT_COMPLEX", Class::complex},
    {"MPI_C_DOUBLE_COMPLEX", Class::complex},
    {"MPI_COMPLEX", Class::complex},
    {"MPI_COMPLEX8", Class::complex},
    {"MPI_COMPLEX16", Class::complex},
    {"MPI_DOUBLE_COMPLEX", Class::complex},
    {"MPI_CXX_FLOAT_COMPLEX", Class::complex},
    {"MPI_CXX_DOUBLE_COMPLEX", Class::complex},
    {"MPI_C_BOOL", Class::boolean},
    {"MPI_CXX_BOOL", Class::boolean},
    {"MPI_LOGICAL", Class::logical},
    {"MPI_LOGICAL1", Class::logical},
    {"MPI_LOGICAL2", Class::logical},
    {"MPI_LOGICAL4", Class::logical},
    {"MPI_LOGICAL8", Class::logical},
    {"MPI_BYTE", Class::byte},
    {"MPI_FLOAT_INT", Class::pair, Type::float_int},
    {"MPI_DOUBLE_INT", Class::pair, Type::double_int},
    {"MPI_LONG_INT", Class::pair, Type::long_int},
    {"MPI_2INT", Class::pair, Type::two_int},
    {"MPI_SHORT_INT", Class::pair, Type::short_int},
    {"MPI_2INTEGER", Class::pair, Type::two_int},
    {"MPI_2REAL", Class::pair, Type::two_float},
    {"MPI_2DOUBLE_PRECISION", Class::pair, Type::two_double},
};

// Of 1, 2, 4 and 8 bytes.
constexpr Type kSigned[] = {Type::int8, Type::int16, Type::int32, Type::int64};
constexpr Type kUnsigned[] = {Type::uint8, Type::uint16, Type::uint32, Type::uint64};

// Nothing for integers of another size.
std::optional<Type> type_of(const Named& named, intptr_t extent)
{
    const auto log2 = static_cast<size_t>(std::countr_zero(static_cast<uint64_t>(extent)));
    switch (named.kind) {
    case Class::signed_integer:
    case Class::other_integer:
    case Class::logical:
        return log2 < std::size(kSigned) ? std::optional(kSigned[log2]) : std::nullopt;
    case Class::unsigned_integer:
    case Class::byte:
        return log2 < std::size(kUnsigned) ? std::optional(kUnsigned[log2]) : std::nullopt;
    case Class::real:
        return extent == 4 ? Type::float32 : Type::float64;
    case Class::complex:
        return extent == 8 ? Type::complex64 : Type::complex128;
    case Class::boolean:
        return Type::boolean;
    case Class::pair:
        break;
    }
    return named.pair;
}

// MPI permits fewer operations than the kernels have for the type.
bool permitted(Operation operation, Class kind)
{
    const bool logical =
        operation == Operation::land || operation == Operation::lor || operation == Operation::lxor;
    const bool bitwise =
        operation == Operation::band || operation == Operation::bor || operation == Operation::bxor;
    switch (kind) {
    case Class::other_integer:
        return !logical;
    case Class::logical:
        return logical;
    case Class::byte:
        return bitwise;
    default:
        return true;
    }
}

int combiner_of(const Library& library, Word type)
{
    int integers = 0, addresses = 0, types = 0, combiner = 0;
    if (library.Type_get_envelope(type, &integers, &addresses, &types, &combiner) != 0) {
        return library.abi->undefined;
    }
    return combiner;
}

std::optional<Named> named(const Library& library, Word type)
{
    constexpr size_t kLongestName = 512; // at least MPI_MAX_OBJECT_NAME of any library
    std::array<char, kLongestName> name{};
    int length = 0;
    if (library.Type_get_name(type, name.data(), &length) != 0) {
        return std::nullopt;
    }
    const auto* found = std::ranges::find(kTypes, std::string_view(name.data()), &Named::name);
    return found != std::end(kTypes) ? std::optional(*found) : std::nullopt;
}

// The types of MPI_Type_create_f90_real, ...: predefined types without a name.
std::optional<Named> unnamed(const Library& library, int combiner)
{
    constexpr Class kKinds[] = {Class::real, Class::complex, Class::other_integer};
    const int which = combiner - library.abi->combiners.f90;
    if (which < 0 || which >= static_cast<int>(std::size(kKinds))) {
        return std::nullopt;
    }
    return Named{{}, kKinds[which]};
}

// Whether Fortran's LOGICAL stores true as 1. The kernels write 1; MPI writes what its Fortran
// compiler does, which is -1 with some.
bool true_is_one(const Library& library, Word type)
{
    const int64_t one = 1; // long enough for any LOGICAL
    int64_t result = 0;
    const Word lor = library.operations[static_cast<size_t>(Operation::lor)];
    return library.Reduce_local(&one, &result, 1, type, lor) == 0 && result == 1;
}

struct Meaning {
    Class kind;
    Type type;
};

std::optional<Meaning> meaning_of(const Library& library, Word type)
{
    if (type == library.datatype_null) {
        return std::nullopt;
    }
    const int combiner = combiner_of(library, type);
    const std::optional<Named> found = combiner == library.abi->combiners.named
                                           ? named(library, type)
                                           : unnamed(library, combiner);
    intptr_t lower = 0, extent = 0;
    if (!found || library.Type_get_extent(type, &lower, &extent) != 0) {
        return std::nullopt;
    }
    const std::optional<Type> result = type_of(*found, extent);
    if (!result || kernels::size_of(*result) != static_cast<size_t>(extent) ||
        (found->kind == Class::logical && !true_is_one(library, type))) {
        return std::nullopt;
    }
    return Meaning{found->kind, *result};
}

// The meanings, by handle, of predefined types that the application has renamed.
struct Renamed {
    std::mutex mutex;
    std::map<Word, std::optional<Meaning>> meanings;
};

Renamed& renamed()
{
    static auto& instance = *new Renamed;
    return instance;
}

std::optional<Meaning> kept_meaning(const Library& library, Word type)
{
    Renamed& r = renamed();
    {
        const std::lock_guard guard(r.mutex);
        if (const auto known = r.meanings.find(type); known != r.meanings.end()) {
            return known->second;
        }
    }
    return meaning_of(library, type);
}

} // namespace

std::optional<int> set_name(const Invocation& invocation)
{
    const Library& library = invocation.library();
    const Word type = invocation.handle(0);
    if (type == library.datatype_null ||
        combiner_of(library, type) != library.abi->combiners.named) {
        return std::nullopt;
    }
    const std::optional<Meaning> meaning = meaning_of(library, type);
    Renamed& r = renamed();
    const std::lock_guard guard(r.mutex);
    r.meanings.try_emplace(type, meaning); // the first name was MPI's
    return std::nullopt;
}

std::optional<PredefinedReduction> predefined_reduction(const Library& library, Word op, Word type)
{
    const auto found = std::ranges::find(library.operations, op);
    if (found == library.operations.end()) {
        return std::nullopt;
    }
    const auto operation = static_cast<Operation>(std::distance(library.operations.begin(), found));
    const std::optional<Meaning> known = kept_meaning(library, type);
    if (!known || !permitted(operation, known->kind) || !kernels::defined(operation, known->type)) {
        return std::nullopt;
    }
    return PredefinedReduction{operation, known->type};
}

} // namespace gdr::mpi
