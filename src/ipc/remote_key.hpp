// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What a process tells others about memory that they may open.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace gdr::ipc {

enum class Sharing : uint8_t {
    none,       // other processes cannot open this memory
    handle,     // of cuMemAlloc, by the handle of cuIpcGetMemHandle
    descriptor, // of cuMemCreate, by a file descriptor that the owner gives on request
    fabric,     // of cuMemCreate, by a fabric handle
};

inline constexpr uint32_t kRemoteKeyMagic = 0x49524447; // "GDRI"
inline constexpr uint8_t kRemoteKeyVersion = 2;

// The same for all memory of one allocation.
struct [[gnu::packed]] RemoteKey {
    uint32_t magic = kRemoteKeyMagic;
    uint8_t version = kRemoteKeyVersion;
    Sharing sharing = Sharing::none;
    uint16_t reserved = 0;
    uint32_t pid = 0;           // of the owner
    uint64_t owner = 0;         // Process::id
    uint64_t base = 0;          // of the allocation, in the owner
    uint64_t length = 0;        // of the allocation, bytes
    uint64_t buffer_id = 0;     // of the allocation, in the owner
    uint64_t proof = 0;         // Sharing::descriptor: proof_of() of the allocation
    CUipcMemHandle handle = {}; // Sharing::fabric: the bytes of a cuda::FabricHandle, of equal size
};
static_assert(sizeof(RemoteKey) <= 255, "UCP writes the length of a key into a byte");

} // namespace gdr::ipc
