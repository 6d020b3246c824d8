// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Each process of a bench keeps to a processor of its own.
#pragma once

#include <sched.h>

namespace ucptest {

// Of those that the processes were given, in order; none where they are too few.
inline void keep_to_own_processor(int rank)
{
    cpu_set_t given;
    sched_getaffinity(0, sizeof(given), &given);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (!CPU_ISSET(cpu, &given) || rank-- > 0) {
            continue;
        }
        cpu_set_t own;
        CPU_ZERO(&own);
        CPU_SET(cpu, &own);
        sched_setaffinity(0, sizeof(own), &own);
        return;
    }
}

} // namespace ucptest
