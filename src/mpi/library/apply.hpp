// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Calling a function of MPI with arguments of which only the number is known. An error handler of
// the application's may throw through it.
#pragma once

#include "mpi/library/abi.hpp"
#include "mpi/library/call.hpp"

#include <exception>

namespace gdr::mpi {

// What it threw: not to be taken for an error of the layer's.
struct Thrown {
    std::exception_ptr exception;
};

inline constexpr size_t kMostArguments = 16;

// Throws Thrown; with a C++ library that is not the application's what that threw, as it is.
int apply(gdr_mpi_function* function, const Call& call, const Word* words);

} // namespace gdr::mpi
