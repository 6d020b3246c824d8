// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// File descriptors of this process's memory, for other processes of the same user that were given a
// key of it: a socket whose name, which everybody in the network namespace can list, follows from
// Process::id, served by UCX's asynchronous thread. So the owner exports only what is asked for,
// says whether it is still the memory meant, and neither side needs the right to trace the other,
// as taking a descriptor out of a process does.
#pragma once

#include "cuda/driver.hpp"
#include "cuda/unique_fd.hpp"
#include "ipc/remote_key.hpp"

#include <stdexcept>

namespace gdr::ipc {

// What the key of an allocation holds for its owner to know it again: nobody else can make it. Any
// thread.
uint64_t proof_of(uint64_t base, uint64_t buffer_id);

// Serves from the first call on, as long as the process lives. Throws std::runtime_error with the
// reason when there is no socket, which may be otherwise later. Any thread.
void serve_descriptors();

// The owner has not answered. It is asked again some time later (silent_owners.hpp).
class NoAnswer : public std::runtime_error {
    using runtime_error::runtime_error;
};

// Whether it has not answered, and is not to be asked now. Any thread.
bool is_silent(uint64_t owner);

// A new descriptor of the allocation that the key names, from its owner. Throws NoAnswer, at once
// where the owner has not answered just before; std::system_error where a call of the system
// failed; another std::exception when the owner has the memory no more. Any thread.
cuda::UniqueFd ask_for_descriptor(const RemoteKey& key);

} // namespace gdr::ipc
