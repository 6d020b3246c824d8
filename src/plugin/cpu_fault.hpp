// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A program dies with a bare segmentation fault when its CPU accesses GPU memory. An MPI library
// built without CUDA does that in calls that never reach UCX. This code first prints a message with
// the call and what to do; then the program dies as it would have.
#pragma once

#include "cuda/driver.hpp"
#include "mpi/serve.hpp"

namespace gdr::plugin {

// Facts that the message depends on.
struct FaultFacts {
    mpi::Way (*way_of)(const char* function); // of an MPI call that died
    bool memtype_cache;                       // the user has enabled it, in a UCX without CUDA
};

// Installs the handlers. Once per process; later calls do nothing.
void explain_cpu_faults(const cuda::Driver& driver, const FaultFacts& facts);

} // namespace gdr::plugin
