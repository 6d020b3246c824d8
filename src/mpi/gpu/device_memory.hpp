// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#pragma once

#include "cuda/pointer.hpp"

#include <optional>

namespace gdr::mpi {

// Who is told when MPI calls bring memory of a GPU for the first time, before anybody gets it:
// nobody does before a call has returned; several threads may make one. To be set before any comes.
void set_device_memory_listener(void (*comes)());

// Tells, as where any is found. Whoever passes a call on without having looked at all its buffers
// asks whether that is still to be done.
void tell_of_device_memory();
bool device_memory_is_untold();

// The memory of a GPU that an address belongs to; nothing for host memory, and for managed memory,
// which the CPU can touch. other: set where it is some that CUDA knows all the same, managed or
// pinned. Throws cuda::Error.
std::optional<cuda::Pointer> find_device_memory(const cuda::Driver& driver, const void* address,
                                                bool* other = nullptr);

// The same while one call of MPI has the application's buffers: of several addresses in one
// allocation the driver is asked about the first.
class KnownDeviceMemory {
  public:
    explicit KnownDeviceMemory(const cuda::Driver& driver) : driver_(driver) {}

    const cuda::Driver& driver() const { return driver_; }

    // nullptr where there is nothing; else for as long as no other is found. Throws cuda::Error.
    const cuda::Pointer* find(const void* address, bool* other = nullptr);

  private:
    const cuda::Driver& driver_;
    cuda::Pointer latest_;
};

} // namespace gdr::mpi
