// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Operations that are complete when their window is synchronised, or their file's split operation
// is ended. Any thread; no lock is held while MPI or CUDA is called.
#pragma once

#include "mpi/staging/operation.hpp"

namespace gdr::mpi {

// The operation of a call that has been made.
void add_to_epoch(const Abi& abi, const Call& call, const Word* words, Operation operation);

// Whether there is any.
bool any_in_epochs();

// Makes one of the calls that synchronise. Returns what MPI returns, or MPI_ERR_OTHER where a copy
// failed.
int synchronise(const Library& library, const Call& call, gdr_mpi_function* function, Word* words);

} // namespace gdr::mpi
