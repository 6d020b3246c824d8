// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// In which memories the bytes of a footprint lie: types relative to MPI_BOTTOM may lead to several.
#pragma once

#include "mpi/gpu/device_memory.hpp"
#include "mpi/interface/footprint.hpp"

#include <vector>

namespace gdr::mpi {

// Rows in one memory.
struct Piece {
    Run run;          // relative to the buffer's address
    CUdevice device;  // -1: host memory
    uintptr_t memory; // the base of the allocation; 0: host memory
};

// In the order of the footprint's runs. Throws cuda::Error, std::bad_alloc.
std::vector<Piece> pieces_of(KnownDeviceMemory& memory, const void* buffer,
                             const Footprint& footprint);

// The error of calls that do not take such a type.
inline constexpr const char* kSeveralMemories =
    "its datatype leads to host and GPU memory, or to several allocations: give it one buffer";

// Whether all are in one allocation, or in host memory.
bool in_one_memory(const std::vector<Piece>& pieces);

} // namespace gdr::mpi
