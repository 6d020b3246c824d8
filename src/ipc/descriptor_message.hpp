// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A message over a SOCK_SEQPACKET socket between two processes of a host, with an optional file
// descriptor. Any thread.
#pragma once

#include "cuda/unique_fd.hpp"

#include <cstddef>

namespace gdr::ipc {

// Sends a message and keeps the descriptor (-1: none). False, with errno, if it was not sent.
bool send_message(int socket, const void* bytes, size_t length, int descriptor);

// Waits for a message of length bytes. descriptor receives the first descriptor, or none; NULL:
// none is wanted. Other descriptors are closed. False, with errno, if no such message came;
// ECONNRESET if the other side closed the connection or sent another length.
bool receive_message(int socket, void* bytes, size_t length, cuda::UniqueFd* descriptor);

} // namespace gdr::ipc
