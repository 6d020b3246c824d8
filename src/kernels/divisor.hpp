// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Division by a number that is the same in a whole launch: a multiplication and a shift, where a
// GPU's division takes some dozens of instructions.
#pragma once

#include "kernels/device.hpp"

namespace gdr::kernels {

// Dividends and divisors are less than 2^31. With p = 31 + ceil(log2(divisor)) the factor is
// ceil(2^p / divisor), which fits 32 bits, and dividend * factor / 2^p, rounded down, is exact.
struct Divisor {
    uint32_t divisor;
    uint32_t factor; // 0: the divisor is 1
    uint32_t shift;  // p - 32

    static Divisor of(uint32_t divisor)
    {
        if (divisor == 1) {
            return {1, 0, 0};
        }
        const auto log2 = static_cast<uint32_t>(32 - __builtin_clz(divisor - 1));
        const uint64_t power = uint64_t{1} << (31 + log2);
        return {divisor, static_cast<uint32_t>((power + divisor - 1) / divisor), log2 - 1};
    }
};

GDR_DEVICE uint32_t quotient(uint32_t dividend, const Divisor& by)
{
    const auto high = static_cast<uint32_t>((uint64_t{dividend} * by.factor) >> 32);
    return by.factor == 0 ? dividend : high >> by.shift;
}

} // namespace gdr::kernels
