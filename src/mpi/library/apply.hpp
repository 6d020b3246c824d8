// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Calling a function of MPI with arguments of which only the number is known.
#pragma once

#include "mpi/library/abi.hpp"
#include "mpi/library/call.hpp"

namespace gdr::mpi {

inline constexpr size_t kMostArguments = 16;

int apply(gdr_mpi_function* function, const Call& call, const Word* words);

} // namespace gdr::mpi
