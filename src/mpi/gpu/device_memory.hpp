// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#pragma once

#include "cuda/pointer.hpp"

#include <optional>

namespace gdr::mpi {

// Is called when an MPI call first brings GPU memory, before MPI gets that memory. Several threads
// may call it at once; no call goes on before one of them returns. To be set before any such call.
void set_device_memory_listener(void (*comes)());

// Calls the listener, as find_device_memory() does. Code that passes a call on without looking at
// all its buffers asks whether that is still to be done.
void tell_of_device_memory();
bool device_memory_is_untold();

// The GPU memory that an address belongs to. Nothing for host memory, and for managed memory, which
// the CPU can access. other: set if CUDA knows the memory although it is managed or pinned. Throws
// cuda::Error.
std::optional<cuda::Pointer> find_device_memory(const cuda::Driver& driver, const void* address,
                                                bool* other = nullptr);

// The same during one MPI call, while the application's buffers exist: for several addresses in one
// allocation the driver is asked only once.
class KnownDeviceMemory {
  public:
    explicit KnownDeviceMemory(const cuda::Driver& driver) : driver_(driver) {}

    const cuda::Driver& driver() const { return driver_; }

    // nullptr if it is not GPU memory. The pointer is valid until another allocation is found.
    // Throws cuda::Error.
    const cuda::Pointer* find(const void* address, bool* other = nullptr);

  private:
    const cuda::Driver& driver_;
    cuda::Pointer latest_;
};

} // namespace gdr::mpi
