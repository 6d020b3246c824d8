// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The reductions, and the parameters of their kernels.
#pragma once

#include "kernels/device.hpp"

// Every operation on every type that MPI defines it for: REDUCTION(operation, type).
#define GDR_FOR_INTEGERS(REDUCTION, operation)                                                     \
    REDUCTION(operation, int8)                                                                     \
    REDUCTION(operation, int16)                                                                    \
    REDUCTION(operation, int32)                                                                    \
    REDUCTION(operation, int64)                                                                    \
    REDUCTION(operation, uint8)                                                                    \
    REDUCTION(operation, uint16)                                                                   \
    REDUCTION(operation, uint32)                                                                   \
    REDUCTION(operation, uint64)
#define GDR_FOR_ORDERED(REDUCTION, operation)                                                      \
    GDR_FOR_INTEGERS(REDUCTION, operation)                                                         \
    REDUCTION(operation, float32)                                                                  \
    REDUCTION(operation, float64)
#define GDR_FOR_NUMBERS(REDUCTION, operation)                                                      \
    GDR_FOR_ORDERED(REDUCTION, operation)                                                          \
    REDUCTION(operation, complex64)                                                                \
    REDUCTION(operation, complex128)
#define GDR_FOR_LOGICAL(REDUCTION, operation)                                                      \
    GDR_FOR_INTEGERS(REDUCTION, operation)                                                         \
    REDUCTION(operation, boolean)
#define GDR_FOR_PAIRS(REDUCTION, operation)                                                        \
    REDUCTION(operation, float_int)                                                                \
    REDUCTION(operation, double_int)                                                               \
    REDUCTION(operation, long_int)                                                                 \
    REDUCTION(operation, two_int)                                                                  \
    REDUCTION(operation, short_int)                                                                \
    REDUCTION(operation, two_float)                                                                \
    REDUCTION(operation, two_double)
#define GDR_REDUCTIONS(REDUCTION)                                                                  \
    GDR_FOR_NUMBERS(REDUCTION, sum)                                                                \
    GDR_FOR_NUMBERS(REDUCTION, prod)                                                               \
    GDR_FOR_ORDERED(REDUCTION, min)                                                                \
    GDR_FOR_ORDERED(REDUCTION, max)                                                                \
    GDR_FOR_LOGICAL(REDUCTION, land)                                                               \
    GDR_FOR_LOGICAL(REDUCTION, lor)                                                                \
    GDR_FOR_LOGICAL(REDUCTION, lxor)                                                               \
    GDR_FOR_INTEGERS(REDUCTION, band)                                                              \
    GDR_FOR_INTEGERS(REDUCTION, bor)                                                               \
    GDR_FOR_INTEGERS(REDUCTION, bxor)                                                              \
    GDR_FOR_PAIRS(REDUCTION, minloc)                                                               \
    GDR_FOR_PAIRS(REDUCTION, maxloc)

namespace gdr::kernels {

// Elements that a thread reduces at a time.
constexpr uint32_t kElementsAtOnce = 4;

struct ReduceArguments {
    uint64_t first; // addresses
    uint64_t second;
    uint64_t result;
    uint64_t count;
};

} // namespace gdr::kernels
