// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Types by the names that MPI gives them, which all libraries share; operations have none.
#include "mpi/collectives/predefined_reductions.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string_view>

namespace gdr::mpi {

namespace {

using kernels::Type;

enum class Class { signed_integer, unsigned_integer, real, complex, boolean, pair };

struct Named {
    std::string_view name;
    Class kind;
    Type pair = Type::two_int; // of a pair
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
    {"MPI_AINT", Class::signed_integer},
    {"MPI_OFFSET", Class::signed_integer},
    {"MPI_COUNT", Class::signed_integer},
    {"MPI_INTEGER", Class::signed_integer},
    {"MPI_INTEGER1", Class::signed_integer},
    {"MPI_INTEGER2", Class::signed_integer},
    {"MPI_INTEGER4", Class::signed_integer},
    {"MPI_INTEGER8", Class::signed_integer},
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
    {"MPI_C_BOOL", Class::boolean},
    {"MPI_CXX_BOOL", Class::boolean},
    {"MPI_FLOAT_INT", Class::pair, Type::float_int},
    {"MPI_DOUBLE_INT", Class::pair, Type::double_int},
    {"MPI_LONG_INT", Class::pair, Type::long_int},
    {"MPI_2INT", Class::pair, Type::two_int},
    {"MPI_SHORT_INT", Class::pair, Type::short_int},
};

// Of 1, 2, 4 and 8 bytes.
constexpr Type kSigned[] = {Type::int8, Type::int16, Type::int32, Type::int64};
constexpr Type kUnsigned[] = {Type::uint8, Type::uint16, Type::uint32, Type::uint64};

Type type_of(const Named& named, intptr_t extent)
{
    const unsigned log2 = static_cast<unsigned>(__builtin_ctzl(static_cast<unsigned long>(extent)));
    switch (named.kind) {
    case Class::signed_integer:
        return kSigned[log2];
    case Class::unsigned_integer:
        return kUnsigned[log2];
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

bool is_named(const Library& library, Word type)
{
    int integers = 0, addresses = 0, types = 0, combiner = 0;
    return library.Type_get_envelope(type, &integers, &addresses, &types, &combiner) == 0 &&
           combiner == library.abi->combiners.named;
}

std::optional<Type> type_by_name(const Library& library, Word type)
{
    if (type == library.datatype_null || !is_named(library, type))
        return std::nullopt;
    constexpr size_t kLongestName = 512; // of any library's MPI_MAX_OBJECT_NAME
    std::array<char, kLongestName> name{};
    int length = 0;
    intptr_t lower = 0, extent = 0;
    if (library.Type_get_name(type, name.data(), &length) != 0 ||
        library.Type_get_extent(type, &lower, &extent) != 0)
        return std::nullopt;
    const auto* found = std::ranges::find(kTypes, std::string_view(name.data()), &Named::name);
    if (found == std::end(kTypes))
        return std::nullopt;
    const Type result = type_of(*found, extent);
    if (kernels::size_of(result) != static_cast<size_t>(extent))
        return std::nullopt;
    return result;
}

// Of predefined types that have been given other names, by their handles.
struct Renamed {
    std::mutex mutex;
    std::map<Word, std::optional<Type>> meanings;
};

Renamed& renamed()
{
    static auto& instance = *new Renamed;
    return instance;
}

std::optional<Type> kernel_type(const Library& library, Word type)
{
    Renamed& r = renamed();
    {
        const std::lock_guard guard(r.mutex);
        if (const auto known = r.meanings.find(type); known != r.meanings.end())
            return known->second;
    }
    return type_by_name(library, type);
}

} // namespace

void keep_meaning(const Library& library, Word type)
{
    if (type == library.datatype_null || !is_named(library, type))
        return;
    const std::optional<Type> meaning = type_by_name(library, type);
    Renamed& r = renamed();
    const std::lock_guard guard(r.mutex);
    r.meanings.try_emplace(type, meaning); // the first name was MPI's
}

std::optional<PredefinedReduction> predefined_reduction(const Library& library, Word op, Word type)
{
    const auto found = std::ranges::find(library.operations, op);
    if (found == library.operations.end())
        return std::nullopt;
    const auto operation =
        static_cast<kernels::Operation>(std::distance(library.operations.begin(), found));
    const std::optional<Type> known = kernel_type(library, type);
    if (!known || !kernels::defined(operation, *known))
        return std::nullopt;
    return PredefinedReduction{operation, *known};
}

} // namespace gdr::mpi
