// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Registration of a CUDA driver's memory: what an address is, whether an HCA may have it, and how
// this and other processes reach it later.
#pragma once

#include "emu/softhca/memory.hpp"

#include <cstddef>

namespace softhca {

enum class CudaKind { none, device, managed };

// Of the memory at an address; none also for host memory that CUDA has pinned.
CudaKind cuda_kind(std::uint64_t address);

// Whether nvidia-peermem takes a range: it lies in one allocation that is made for it, which memory
// of a pool never is, and that of cuMemCreate only on request.
bool is_peer_capable(std::uint64_t address, std::size_t length);

// Describes a range of device memory for all who may move it; false if the driver knows none of its
// first or of its last page.
bool describe_cuda_memory(CudaMemory& memory, Token owner, std::uint64_t address,
                          std::size_t length);
// Gives up what the description holds on to.
void forget_cuda_memory(CudaMemory& memory);

// For the owner: whether the memory is still the one that was described. The driver crashes in
// copies of memory that has been freed.
bool is_intact(const Segment& segment);
bool is_intact(const SegmentList& list);

} // namespace softhca
