// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A time in the future, for functions of pthreads.
#pragma once

#include <chrono>

#include <ctime>

namespace gdr::sync {

inline timespec later(timespec now, std::chrono::nanoseconds by)
{
    using namespace std::chrono;
    const nanoseconds fraction = nanoseconds(now.tv_nsec) + by % seconds(1);
    return {.tv_sec = now.tv_sec + duration_cast<seconds>(by).count() +
                      duration_cast<seconds>(fraction).count(),
            .tv_nsec = (fraction % seconds(1)).count()};
}

} // namespace gdr::sync
