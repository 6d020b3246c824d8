// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Maps operations and types to the names of kernels.
#include "kernels/reduction.hpp"
#include "kernels/reduce_arguments.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace gdr::kernels {

namespace {

struct Kernel {
    Operation operation;
    Type type;
    const char* name;
};

#define GDR_NAMED(operation, type) {Operation::operation, Type::type, "gdr_" #operation "_" #type},
constexpr Kernel kKernels[] = {GDR_REDUCTIONS(GDR_NAMED)};
#undef GDR_NAMED

// nullptr if there is none.
const Kernel* find(Operation operation, Type type)
{
    const auto* found =
        std::find_if(std::begin(kKernels), std::end(kKernels), [&](const Kernel& kernel) {
            return kernel.operation == operation && kernel.type == type;
        });
    return found != std::end(kKernels) ? found : nullptr;
}

CUfunction function_of(LoadedKernels& kernels, Operation operation, Type type)
{
    const Kernel* kernel = find(operation, type);
    if (kernel == nullptr) {
        throw std::invalid_argument("a reduction that is not defined for its type");
    }
    return kernels.function(kernel->name);
}

} // namespace

size_t size_of(Type type)
{
    switch (type) {
    case Type::int8:
    case Type::uint8:
    case Type::boolean:
        return 1;
    case Type::int16:
    case Type::uint16:
        return 2;
    case Type::int32:
    case Type::uint32:
    case Type::float32:
        return 4;
    case Type::int64:
    case Type::uint64:
    case Type::float64:
    case Type::complex64:
    case Type::float_int:
    case Type::two_int:
    case Type::short_int:
    case Type::two_float:
        return 8;
    default: // complex128, double_int, long_int, two_double
        return 16;
    }
}

bool defined(Operation operation, Type type)
{
    return find(operation, type) != nullptr;
}

Reduction::Reduction(LoadedKernels& kernels, Operation operation, Type type)
    : kernels_(kernels), function_(function_of(kernels, operation, type))
{
}

void Reduction::reduce(const void* first, const void* second, void* result, uint64_t count,
                       CUstream stream) const
{
    // A grid has fewer than 2^31 blocks; beyond this, the kernel's threads loop.
    constexpr uint64_t kMostAtOnce = uint64_t{1} << 38;
    if (count == 0) {
        return;
    }
    const ReduceArguments arguments{reinterpret_cast<uintptr_t>(first),
                                    reinterpret_cast<uintptr_t>(second),
                                    reinterpret_cast<uintptr_t>(result), count};
    kernels_.launch(function_, std::min(count, kMostAtOnce), kElementsAtOnce, arguments, stream);
}

} // namespace gdr::kernels
