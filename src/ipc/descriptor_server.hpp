// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Gives file descriptors of this process's memory to other processes of the same user that have a
// key of it. UCX's async thread serves a socket. Its name follows from Process::id, and everybody
// in the network namespace can list it. So the owner exports only memory that a peer asks for, and
// says whether it is still the same memory; and neither side needs ptrace rights, as taking a
// descriptor out of a process would.
#pragma once

#include "cuda/driver.hpp"
#include "cuda/unique_fd.hpp"
#include "ipc/remote_key.hpp"

#include <stdexcept>

namespace gdr::ipc {

// A hash in the key of an allocation that only its owner can compute, so that the owner recognises
// its keys. Any thread.
uint64_t proof_of(uint64_t base, uint64_t buffer_id);

// Starts the server at the first call, for the life of the process. Throws std::runtime_error with
// the reason if there is no socket; a later call may succeed. Any thread.
void serve_descriptors();

// The owner has not answered. It may be asked again some time later (silent_owners.hpp).
class NoAnswer : public std::runtime_error {
    using runtime_error::runtime_error;
};

// Whether the owner has not answered and must not be asked now. Any thread.
bool is_silent(uint64_t owner);

// Asks the owner for a new descriptor of the allocation that the key names. Throws NoAnswer, at
// once if the owner recently failed to answer; std::system_error if a system call failed; another
// std::exception if the owner no longer has the memory. Any thread.
cuda::UniqueFd ask_for_descriptor(const RemoteKey& key);

} // namespace gdr::ipc
