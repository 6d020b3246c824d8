// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A program dies with a bare segmentation fault when its CPU touches GPU memory, as an MPI library
// built without CUDA does in the calls that never reach UCX. Here it gets a message first, with the
// call and what to do; then it dies as it would have.
#pragma once

#include "cuda/driver.hpp"
#include "mpi/serve.hpp"

namespace gdr::plugin {

// What it looks at besides.
struct FaultFacts {
    mpi::Way (*way_of)(const char* function); // of a call of MPI that died
    bool memtype_cache;                       // switched on by the user, in a UCX without CUDA
};

// From now on. Once per process; later calls do nothing.
void explain_cpu_faults(const cuda::Driver& driver, const FaultFacts& facts);

} // namespace gdr::plugin
