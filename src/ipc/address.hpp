// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The address of an IPC interface, and which others it reaches. UCP asks interfaces of one
// transport name about each other's addresses, so those of the other transports called gdr arrive
// here too: a tag tells them apart.
#pragma once

#include "ipc/process.hpp"

namespace gdr::ipc {

struct [[gnu::packed]] Address {
    uint32_t tag; // kAddressTag. First, so that no byte behind a shorter foreign address is read.
    Process process;
};

inline constexpr uint32_t kAddressTag = 0x32504967; // "gIP2" in memory: with kRemoteKeyVersion 2

Address make_address();

// address as UCP passes it: unaligned, of any transport called gdr, or NULL. Another process of
// this host and pid namespace is reached. Not the own one, whose copies are the copy interface's,
// nor anything in a child that was forked after own was made.
bool reaches(const Address& own, const void* address);

// The process of an address that is reached.
Process process_of(const void* address);

} // namespace gdr::ipc
