// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Operations that go on after the call that began them, by their requests. MPI gives handles out
// again, some of them (of what is complete at once) several times: one handle's operations are in
// the order in which they began, and the oldest is the one that completes. Any thread; no lock is
// held while MPI or CUDA is called, but for requests that were freed, at which threads look in
// turn.
#pragma once

#include "mpi/staging/epochs.hpp"

#include <atomic>
#include <cstddef>
#include <variant>

namespace gdr::mpi {

// What a request is of: an operation of its own, or one of an epoch, which may complete it first.
using RequestedOperation = std::variant<Operation, std::shared_ptr<EpochOperation>>;

// An operation that has been started (or, a persistent one, will be) under this handle. One that
// MPI has completed at once ends here: MPI gives all such the same handle. own_handle: not this
// one, and it is not asked for, as MPI would tell of an error twice. Throws cuda::Error,
// std::bad_alloc.
void add_request(const Library& library, Word handle, RequestedOperation operation, bool persistent,
                 bool own_handle);

// How many there are. The counter stays for good.
const std::atomic<size_t>& number_of_requests();

// Whether the application has freed any that go on; puts back those that MPI has completed by now.
bool any_freed();
void collect_freed(const Library& library);

// Makes one of the calls that start, complete or free requests. Returns what MPI returns, or
// MPI_ERR_OTHER where a copy failed.
int call_with_requests(const cuda::Driver& driver, const Library& library, const Call& call,
                       gdr_mpi_function* function, Word* words);

} // namespace gdr::mpi
