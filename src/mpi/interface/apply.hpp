// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Calls an MPI function whose arguments are known only by number. An error handler of the
// application may throw through it.
#pragma once

#include "mpi/interface/abi.hpp"
#include "mpi/interface/call.hpp"

#include <exception>

namespace gdr::mpi {

// What the handler threw, which is not an error of the layer.
struct Thrown {
    std::exception_ptr exception;
};

inline constexpr size_t kMostArguments = 16;

// Throws Thrown. If the application has another C++ library, its exceptions pass through unchanged.
int apply(gdr_mpi_function* function, const Call& call, const Word* words);

} // namespace gdr::mpi
