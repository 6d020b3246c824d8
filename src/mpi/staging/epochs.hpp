// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Operations that are complete when their window is synchronised or their file's split operation is
// ended. That completes them here, or an earlier wait on their request does. Any thread; no lock is
// held while MPI or CUDA is called.
#pragma once

#include "mpi/interface/invocation.hpp"
#include "mpi/staging/operation.hpp"

#include <atomic>
#include <cstddef>
#include <memory>

namespace gdr::mpi {

struct EpochOperation;

// The operation of a call that has been made.
std::shared_ptr<EpochOperation> add_to_epoch(const Library& library, const Call& call,
                                             const Word* words, Operation operation);

// MPI has completed the request. This or an earlier synchronisation puts received data back, once.
// The data are there on return. Throws cuda::Error.
void complete_by_request(const Library& library, const std::shared_ptr<EpochOperation>& operation);

// The number of operations. The counter stays forever.
const std::atomic<size_t>& number_in_epochs();

// The calls that synchronise.
Handler synchronise;

} // namespace gdr::mpi
