// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// MPI's predefined operations and types in the kernels' terms.
#pragma once

#include "kernels/reduction.hpp"
#include "mpi/interface/invocation.hpp"

#include <optional>

namespace gdr::mpi {

struct PredefinedReduction {
    kernels::Operation operation;
    kernels::Type type;
};

// Nothing for user-defined operations, for derived types, for types without a kernel (long double;
// 16 or 2 bytes for a number), and if MPI does not define the operation for the type. The answer is
// the same on all ranks, since the handles mean the same.
std::optional<PredefinedReduction> predefined_reduction(const Library& library, Word op, Word type);

// MPI_Type_set_name: the application is about to rename the type on this rank, so that its name
// would not identify it any more. With or without a driver.
Handler set_name;

} // namespace gdr::mpi
