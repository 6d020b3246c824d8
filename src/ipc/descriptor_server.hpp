// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// File descriptors of this process's memory, for other processes of the same user: a socket whose
// name follows from Process::id, served by UCX's asynchronous thread. So the owner exports only
// what is asked for, says whether it is still the memory meant, and neither side needs the right to
// trace the other, as taking a descriptor out of a process does.
#pragma once

#include "cuda/driver.hpp"
#include "cuda/unique_fd.hpp"
#include "ipc/remote_key.hpp"

namespace gdr::ipc {

// Serves from the first call on, as long as the process lives. False: there is no socket, as one
// line in the log says. Any thread.
bool serve_descriptors(const cuda::Driver& driver);

// A new descriptor of the allocation that the key names, from its owner. Throws std::exception when
// the owner does not answer within 3 s or has the memory no more; std::system_error where a call
// of the system failed. Any thread.
cuda::UniqueFd ask_for_descriptor(const RemoteKey& key);

} // namespace gdr::ipc
