// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The clock of every time in shared memory: all processes of a machine read the same.
#pragma once

#include <cstdint>

#include <time.h>

namespace softhca {

inline std::uint64_t now_ns()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(now.tv_nsec);
}

// The earlier of two times, of which 0 is none.
inline std::uint64_t sooner(std::uint64_t a, std::uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

} // namespace softhca
