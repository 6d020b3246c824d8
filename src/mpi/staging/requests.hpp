// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Operations that outlast the call that began them, found by their requests. MPI reuses handles,
// and gives some (for operations that are complete at once) several times. The operations of one
// handle are in the order in which they began, and the oldest completes first. Any thread; no lock
// is held while MPI or CUDA is called, except for freed requests, which one thread at a time looks
// at.
#pragma once

#include "mpi/interface/invocation.hpp"
#include "mpi/staging/epochs.hpp"

#include <atomic>
#include <cstddef>
#include <variant>

namespace gdr::mpi {

// A request's operation: its own, or one of an epoch, which may complete it first.
using RequestedOperation = std::variant<Operation, std::shared_ptr<EpochOperation>>;

// Adds an operation that has been started (a persistent one will be) under this handle. If MPI has
// completed the operation at once, it ends here: MPI gives all such operations the same handle.
// own_handle: the handle is not that one; then MPI is not queried, since it would report an error
// twice. Throws cuda::Error, std::bad_alloc.
void add_request(const Library& library, Word handle, RequestedOperation operation, bool persistent,
                 bool own_handle);

// The number of requests. The counter stays forever.
const std::atomic<size_t>& number_of_requests();

// Whether the application has freed active requests. collect_freed() puts back those that MPI has
// completed.
bool any_freed();
void collect_freed(const Library& library);

Handler start_requests;
Handler complete_requests; // also those that ask, and keep the requests
Handler free_request;

} // namespace gdr::mpi
