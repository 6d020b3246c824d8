// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A message of a SOCK_SEQPACKET socket between two processes of a host, with or without a file
// descriptor beside it. Any thread.
#pragma once

#include "cuda/unique_fd.hpp"

#include <cstddef>

namespace gdr::ipc {

// Keeps the descriptor; -1: none. False, with errno: it was not sent.
bool send_message(int socket, const void* bytes, size_t length, int descriptor);

// Waits for one of that many bytes. descriptor: the first that came along, or none; NULL: none is
// wanted. Others are closed. False, with errno: there was none of this length; ECONNRESET where the
// other side closed, or sent one of another.
bool receive_message(int socket, void* bytes, size_t length, cuda::UniqueFd* descriptor);

} // namespace gdr::ipc
