// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Finds out how kernels reach memory by their own loads and stores: memory of this process, and by
// CUDA IPC that of other processes on the host.
#pragma once

#include "sync/network/address_table.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace gdr::sync {

// nullptr: the program does not use CUDA. The library may be the first that opens it.
const cuda::Driver* driver_in_use();

// Memory of this process. Nothing: kernels do not reach it. Throws cuda::Error.
std::optional<Reach> reach_of(const void* address, size_t length);

// What the owner of memory tells the processes of its host, in the memory's blob.
struct Shared {
    uint64_t host = 0;          // 0: nobody is to reach it
    uint64_t pid_namespace = 0; // within which handles are valid
    uint64_t offset = 0;        // of the memory in its allocation
    std::array<char, 16> gpu{}; // its PCI address; empty: there is no handle
    CUipcMemHandle handle{};
};
Shared share(const void* address, size_t length);

// Whether the owner is on this host, where its handles are valid.
bool is_near(const Shared& shared);

// Memory of another process, mapped for the GPU of the calling thread's context as long as this
// lives. Both ends wait for kernels that run in this process.
class Opened {
  public:
    // Throws std::exception: that GPU cannot reach it.
    Opened(const Shared& shared, size_t length);
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;
    ~Opened();

    const Reach& reach() const { return reach_; }

  private:
    const cuda::Driver& driver_;
    CUdeviceptr allocation_ = 0;
    Reach reach_;
};

// The memories of this process that contexts have mapped, by which a blob of one of them is told
// from one that only says so. context: a random number.
namespace own_memories {
void add(uint64_t context, uint64_t address, uint64_t length);
void remove(uint64_t context, uint64_t address, uint64_t length);
bool contains(uint64_t context, uint64_t address, uint64_t length);
} // namespace own_memories

} // namespace gdr::sync
