// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// MPI's predefined operations and types as the kernels have them.
#pragma once

#include "kernels/reduction.hpp"
#include "mpi/library/library.hpp"

#include <optional>

namespace gdr::mpi {

struct PredefinedReduction {
    kernels::Operation operation;
    kernels::Type type;
};

// Nothing for operations of the user's, for derived types, for types without a kernel (those of
// long double; 16 bytes or 2 of a number), and where MPI does not define the operation for the
// type. The answer is the same on all ranks, as the handles' meanings are.
std::optional<PredefinedReduction> predefined_reduction(const Library& library, Word op, Word type);

// The application is about to give the type another name, on this rank, by which it would not be
// known any more. Any thread.
void keep_meaning(const Library& library, Word type);

} // namespace gdr::mpi
