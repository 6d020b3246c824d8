// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Reductions by the GPU against the CPU, bit by bit: every operation on every type that MPI defines
// it for. On a real GPU where there is one, else on softcuda.
#include "../tap.hpp"
#include "gpu.hpp"
#include "kernels/reduction.hpp"
#include "some_gpu.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <random>
#include <stdexcept>
#include <type_traits>

using namespace gdr::kernels;

namespace {

constexpr size_t kCount = 20'011; // several blocks of threads, the last one not full

// As C programs declare them.
template <typename Value, typename Index = int>
struct Located {
    Value value;
    Index index;
};
struct ComplexFloat {
    float re, im;
};
struct ComplexDouble {
    double re, im;
};
static_assert(sizeof(Located<short>) == 8 && sizeof(Located<double>) == 16 &&
              sizeof(Located<long>) == 16 && sizeof(Located<float>) == 8);

using Random = std::mt19937_64;

template <typename Value>
Value some(Random& random)
{
    if constexpr (std::is_integral_v<Value>) {
        // Small ones often, so that there are zeros and equal values.
        return static_cast<Value>(random() % 3 == 0 ? random() % 4 : random());
    } else {
        const Value special[] = {Value(0),
                                 -Value(0),
                                 Value(1),
                                 std::numeric_limits<Value>::max(),
                                 std::numeric_limits<Value>::denorm_min(),
                                 -std::numeric_limits<Value>::min() / 2};
        if (random() % 10 == 0) {
            return special[random() % std::size(special)];
        }
        const auto mantissa = static_cast<Value>(static_cast<int64_t>(random()));
        return std::ldexp(mantissa, static_cast<int>(random() % 60) - 90);
    }
}

// What the compiler is not to fuse.
template <typename Real>
Real rounded(Real value)
{
    volatile Real stored = value;
    return stored;
}

template <typename Value>
Value expected(Operation operation, Value a, Value b)
{
    using Unsigned = unsigned long long;
    constexpr bool integral = std::is_integral_v<Value>;
    switch (operation) {
    case Operation::sum:
        if constexpr (integral) {
            return static_cast<Value>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
        } else {
            return a + b;
        }
    case Operation::prod:
        if constexpr (integral) {
            return static_cast<Value>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b));
        } else {
            return a * b;
        }
    case Operation::min:
        return a < b ? a : b;
    case Operation::max:
        return b < a ? a : b;
    case Operation::land:
        return a && b;
    case Operation::lor:
        return a || b;
    case Operation::lxor:
        return !a != !b;
    default:
        break;
    }
    if constexpr (integral) {
        if (operation == Operation::band) {
            return static_cast<Value>(a & b);
        }
        if (operation == Operation::bor) {
            return static_cast<Value>(a | b);
        }
        return static_cast<Value>(a ^ b);
    }
    throw std::logic_error("not for this type");
}

template <typename Complex>
Complex expected_complex(Operation operation, Complex a, Complex b)
{
    if (operation == Operation::sum) {
        return {a.re + b.re, a.im + b.im};
    }
    return {rounded(a.re * b.re) - rounded(a.im * b.im),
            rounded(a.re * b.im) + rounded(a.im * b.re)};
}

template <typename Value, typename Index>
Located<Value, Index> expected_location(Operation operation, Located<Value, Index> a,
                                        Located<Value, Index> b)
{
    if (a.value == b.value) {
        return {a.value, std::min(a.index, b.index)};
    }
    const bool first = (a.value < b.value) == (operation == Operation::minloc);
    return first ? a : b;
}

class ReductionTest : public testing::Test {
  protected:
    void SetUp() override
    {
        const gdr::cuda::Driver* driver = gdr::cuda::driver();
        if (driver == nullptr) {
            GTEST_SKIP() << "no CUDA driver: " << gdr::cuda::unavailable_reason();
        }
        if (!built()) {
            GTEST_SKIP() << why_not_built();
        }
        gpu_.emplace(*driver);
        kernels_.emplace(*driver, gpu_->context(), reduce_ptx);
    }

    template <typename Element>
    using Generate = std::function<Element()>;
    template <typename Element>
    using Reference = std::function<Element(Element, Element)>;

    template <typename Element>
    static std::span<const uint8_t> bytes(const std::vector<Element>& elements)
    {
        return {reinterpret_cast<const uint8_t*>(elements.data()),
                elements.size() * sizeof(Element)};
    }

    // same: whether two elements are the same bit by bit, but for padding.
    template <typename Element, typename Same>
    void check(Operation operation, Type type, const Generate<Element>& generate,
               const Reference<Element>& reference, Same same)
    {
        SCOPED_TRACE("operation " + std::to_string(static_cast<int>(operation)) + " type " +
                     std::to_string(static_cast<int>(type)));
        ASSERT_EQ(size_of(type), sizeof(Element));
        std::vector<Element> a(kCount), b(kCount), untouched(kCount + 1);
        for (std::vector<Element>* elements : {&a, &b, &untouched}) {
            for (Element& element : *elements) {
                element = generate();
            }
        }
        const Reduction reduction(*kernels_, operation, type);
        DeviceBuffer first(*gpu_, bytes(a)), second(*gpu_, bytes(b)),
            other(*gpu_, bytes(untouched));
        reduction.reduce(first.address(), second.address(), other.address(), kCount,
                         gpu_->stream());
        // In place, as MPI's own operations do it.
        reduction.reduce(first.address(), second.address(), second.address(), kCount,
                         gpu_->stream());
        gpu_->wait();
        const std::vector<uint8_t> results = other.read(), in_place = second.read();
        size_t wrong = 0;
        for (size_t i = 0; i < kCount; ++i) {
            Element result, again;
            std::memcpy(&result, results.data() + i * sizeof(Element), sizeof(Element));
            std::memcpy(&again, in_place.data() + i * sizeof(Element), sizeof(Element));
            const Element right = reference(a[i], b[i]);
            wrong += !same(result, right) || !same(again, right);
        }
        EXPECT_EQ(wrong, 0u) << "of " << kCount;
        EXPECT_EQ(std::memcmp(results.data() + kCount * sizeof(Element), &untouched[kCount],
                              sizeof(Element)),
                  0)
            << "the element behind the last has changed";
        ++checked_;
    }

    template <typename Value>
    void check_values(Operation operation, Type type)
    {
        if (!defined(operation, type)) {
            return;
        }
        check<Value>(
            operation, type, [this] { return some<Value>(random_); },
            [&](Value a, Value b) { return expected<Value>(operation, a, b); }, same_bits<Value>);
    }

    template <typename Complex, typename Real>
    void check_complex(Operation operation, Type type)
    {
        if (!defined(operation, type)) {
            return;
        }
        check<Complex>(
            operation, type,
            [this] {
                return Complex{std::fmod(some<Real>(random_), Real(1e9)),
                               std::fmod(some<Real>(random_), Real(1e9))};
            },
            [&](Complex a, Complex b) { return expected_complex(operation, a, b); },
            same_bits<Complex>);
    }

    template <typename Value, typename Index = int>
    void check_location(Operation operation, Type type)
    {
        if (!defined(operation, type)) {
            return;
        }
        using Element = Located<Value, Index>;
        check<Element>(
            operation, type,
            [this] {
                return Element{static_cast<Value>(static_cast<int>(random_() % 9) - 4),
                               some<Index>(random_)};
            },
            [&](Element a, Element b) { return expected_location(operation, a, b); },
            [](const Element& a, const Element& b) {
                return same_bits(a.value, b.value) && a.index == b.index;
            });
    }

    template <typename Value>
    static bool same_bits(const Value& a, const Value& b)
    {
        return std::memcmp(&a, &b, sizeof(Value)) == 0;
    }

    Random random_{20261122};
    int checked_ = 0;
    std::optional<Gpu> gpu_;
    std::optional<LoadedKernels> kernels_;
};

constexpr Operation kOperations[] = {Operation::sum,  Operation::prod,   Operation::min,
                                     Operation::max,  Operation::land,   Operation::lor,
                                     Operation::lxor, Operation::band,   Operation::bor,
                                     Operation::bxor, Operation::minloc, Operation::maxloc};

} // namespace

TEST_F(ReductionTest, EveryOperationOnEveryType)
{
    for (const Operation operation : kOperations) {
        check_values<int8_t>(operation, Type::int8);
        check_values<int16_t>(operation, Type::int16);
        check_values<int32_t>(operation, Type::int32);
        check_values<int64_t>(operation, Type::int64);
        check_values<uint8_t>(operation, Type::uint8);
        check_values<uint16_t>(operation, Type::uint16);
        check_values<uint32_t>(operation, Type::uint32);
        check_values<uint64_t>(operation, Type::uint64);
        check_values<float>(operation, Type::float32);
        check_values<double>(operation, Type::float64);
        check_complex<ComplexFloat, float>(operation, Type::complex64);
        check_complex<ComplexDouble, double>(operation, Type::complex128);
        check_values<uint8_t>(operation, Type::boolean);
        check_location<float>(operation, Type::float_int);
        check_location<double>(operation, Type::double_int);
        check_location<long>(operation, Type::long_int);
        check_location<int>(operation, Type::two_int);
        check_location<short>(operation, Type::short_int);
        check_location<float, float>(operation, Type::two_float);
        check_location<double, double>(operation, Type::two_double);
    }
    // 2 x 12 numbers, 2 x 10 with an order, 3 x 9 logical, 3 x 8 bitwise, 2 x 7 pairs.
    EXPECT_EQ(checked_, 109);
}

TEST_F(ReductionTest, WhatMpiDoesNotDefineIsRefused)
{
    EXPECT_FALSE(defined(Operation::band, Type::float32));
    EXPECT_FALSE(defined(Operation::max, Type::complex64));
    EXPECT_FALSE(defined(Operation::sum, Type::two_int));
    EXPECT_FALSE(defined(Operation::sum, Type::boolean));
    EXPECT_FALSE(defined(Operation::minloc, Type::int32));
    EXPECT_THROW(Reduction(*kernels_, Operation::land, Type::float64), std::invalid_argument);
}

TEST_F(ReductionTest, OfANaNTheSecondIsTaken)
{
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> a{nan, 1, nan}, b{1, nan, nan};
    for (const Operation operation : {Operation::min, Operation::max}) {
        const Reduction reduction(*kernels_, operation, Type::float32);
        DeviceBuffer first(*gpu_, bytes(a)), second(*gpu_, bytes(b));
        reduction.reduce(first.address(), second.address(), first.address(), a.size(),
                         gpu_->stream());
        gpu_->wait();
        const std::vector<uint8_t> results = first.read();
        EXPECT_EQ(std::memcmp(results.data(), b.data(), results.size()), 0);
    }
}

TEST_F(ReductionTest, NothingIsNothing)
{
    const Reduction reduction(*kernels_, Operation::sum, Type::int8);
    reduction.reduce(nullptr, nullptr, nullptr, 0, gpu_->stream());
    gpu_->wait();
}

int main(int argc, char** argv)
{
    run_on_some_gpu(argc, argv);
    return run_tests(argc, argv);
}
