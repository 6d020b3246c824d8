// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Copies by the CUDA driver. They run in streams of our own, which wait for no other stream's work
// and for which none waits, in the devices' primary contexts; the calling thread waits until the
// bytes have arrived and keeps its current context. Any thread.
#pragma once

#include "emu/softhca/cuda_driver.hpp"
#include "emu/softhca/memory.hpp"

#include <cstddef>

namespace softhca {

// The context that copies of a device run in; null if it cannot be had.
CUcontext copy_context(int device);

// Between addresses that the driver knows or the CPU reaches; false where the driver refused.
bool copy_by_cuda(int device, std::uint64_t target, std::uint64_t source, std::size_t length);

// Between a segment of this process's device memory and host memory; false if it is there no more.
bool copy_from_device(const Segment& source, void* target);
bool copy_to_device(const Segment& target, const void* source, std::size_t length);

// move() where one side at least is memory that only the driver can copy. For the copier thread.
Moved move_by_cuda(const SegmentList& source, int source_pid, const SegmentList& target,
                   int target_pid);

} // namespace softhca
