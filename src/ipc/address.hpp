// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The address of an IPC interface, and which other interfaces it reaches. UCP asks interfaces of
// one transport name about each other's addresses, so addresses of the other gdr transports arrive
// here too. A tag identifies them.
#pragma once

#include "ipc/process.hpp"

namespace gdr::ipc {

struct [[gnu::packed]] Address {
    uint32_t tag; // kAddressTag; first, because addresses of other types may be shorter
    Process process;
};

inline constexpr uint32_t kAddressTag = 0x32504967; // "gIP2" in memory: with kRemoteKeyVersion 2

Address make_address();

// Whether own reaches address, passed as by UCP: unaligned, of any transport called gdr, or NULL.
// An interface reaches other processes of this host and pid namespace. It does not reach its own
// process, where the copy interface copies, nor anything from a child that was forked after own was
// made.
bool reaches(const Address& own, const void* address);

// The process of a reachable address.
Process process_of(const void* address);

} // namespace gdr::ipc
