// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Reductions: a kernel for each operation and type, gdr_<operation>_<type>.
#pragma once

#include "kernels/reduce_arguments.hpp"

namespace gdr::kernels {

template <typename Real>
struct Complex {
    Real re, im;
};
template <typename Value, typename Index = int32_t>
struct Pair {
    Value value;
    Index index;
};

using T_int8 = int8_t;
using T_int16 = int16_t;
using T_int32 = int32_t;
using T_int64 = int64_t;
using T_uint8 = uint8_t;
using T_uint16 = uint16_t;
using T_uint32 = uint32_t;
using T_uint64 = uint64_t;
using T_float32 = float;
using T_float64 = double;
using T_complex64 = Complex<float>;
using T_complex128 = Complex<double>;
using T_boolean = uint8_t;
using T_float_int = Pair<float>;
using T_double_int = Pair<double>;
using T_long_int = Pair<int64_t>;
using T_two_int = Pair<int32_t>;
using T_short_int = Pair<int16_t>;
using T_two_float = Pair<float, float>;
using T_two_double = Pair<double, double>;

// Integers are added and multiplied as unsigned: overflow wraps around, as it does on CPUs.
template <typename Value>
GDR_DEVICE Value add(Value a, Value b)
{
    return static_cast<Value>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
GDR_DEVICE float add(float a, float b)
{
    return a + b;
}
GDR_DEVICE double add(double a, double b)
{
    return a + b;
}
template <typename Real>
GDR_DEVICE Complex<Real> add(Complex<Real> a, Complex<Real> b)
{
    return {a.re + b.re, a.im + b.im};
}

template <typename Value>
GDR_DEVICE Value multiply(Value a, Value b)
{
    return static_cast<Value>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
GDR_DEVICE float multiply(float a, float b)
{
    return a * b;
}
GDR_DEVICE double multiply(double a, double b)
{
    return a * b;
}
template <typename Real>
GDR_DEVICE Complex<Real> multiply(Complex<Real> a, Complex<Real> b)
{
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

struct Op_sum {
    template <typename Value>
    static GDR_DEVICE Value apply(Value a, Value b)
    {
        return add(a, b);
    }
};
struct Op_prod {
    template <typename Value>
    static GDR_DEVICE Value apply(Value a, Value b)
    {
        return multiply(a, b);
    }
};

#define GDR_OPERATION(name, expression)                                                            \
    struct Op_##name {                                                                             \
        template <typename Value>                                                                  \
        static GDR_DEVICE Value apply(Value a, Value b)                                            \
        {                                                                                          \
            return static_cast<Value>(expression);                                                 \
        }                                                                                          \
    };
GDR_OPERATION(min, a < b ? a : b)
GDR_OPERATION(max, a > b ? a : b)
GDR_OPERATION(land, (a != 0) & (b != 0))
GDR_OPERATION(lor, (a != 0) | (b != 0))
GDR_OPERATION(lxor, (a != 0) != (b != 0))
GDR_OPERATION(band, a& b)
GDR_OPERATION(bor, a | b)
GDR_OPERATION(bxor, a ^ b)
#undef GDR_OPERATION

template <typename Value>
GDR_DEVICE Value with_lower_index(Value a, Value b)
{
    return a.index < b.index ? a : b;
}
struct Op_minloc {
    template <typename Value>
    static GDR_DEVICE Value apply(Value a, Value b)
    {
        return a.value < b.value ? a : b.value < a.value ? b : with_lower_index(a, b);
    }
};
struct Op_maxloc {
    template <typename Value>
    static GDR_DEVICE Value apply(Value a, Value b)
    {
        return a.value > b.value ? a : b.value > a.value ? b : with_lower_index(a, b);
    }
};

template <typename Op, typename Value>
GDR_DEVICE void reduce(const ReduceArguments& arguments, Thread thread)
{
    const uint64_t count = arguments.count;
    for (uint64_t first = thread.index; first < count; first += thread.count * kElementsAtOnce) {
        Value results[kElementsAtOnce];
        GDR_UNROLL
        for (uint32_t k = 0; k < kElementsAtOnce; ++k) {
            const uint64_t i = first + k * thread.count;
            if (i < count) {
                results[k] = Op::apply(load<Value>(arguments.first + i * sizeof(Value)),
                                       load<Value>(arguments.second + i * sizeof(Value)));
            }
        }
        GDR_UNROLL
        for (uint32_t k = 0; k < kElementsAtOnce; ++k) {
            const uint64_t i = first + k * thread.count;
            if (i < count) {
                store<Value>(arguments.result + i * sizeof(Value), results[k]);
            }
        }
    }
}

#define GDR_REDUCE_KERNEL(operation, type)                                                         \
    GDR_KERNEL(gdr_##operation##_##type, (reduce<Op_##operation, T_##type>), ReduceArguments)
GDR_REDUCTIONS(GDR_REDUCE_KERNEL)
#undef GDR_REDUCE_KERNEL

} // namespace gdr::kernels
