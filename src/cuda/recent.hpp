// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A cache of each thread for device memory that it asks about repeatedly: UCP asks for the type of
// a buffer at least three times and then has it copied.
#pragma once

#include "cuda/pointer.hpp"

#include <cstdint>

namespace gdr::cuda {

// Whether an address still belongs to the allocation with this Pointer::buffer_id and
// finish_memops() has nothing to do for it. The address must lie in the range that classify()
// returned for the allocation. Costs one driver call, or none if the thread asked within the last
// 500 cycles of the processor's clock, about 0.2 us: cuMemFree and cuMemAlloc, which bring other
// memory to the same address, take longer.
bool still_finished(const Driver& driver, const void* address, uint64_t buffer_id);

// The same, but says nothing about finish_memops().
bool still_there(const Driver& driver, const void* address, uint64_t buffer_id);

// classify() followed by finish_memops(). Costs one driver call or none, as above, for memory of a
// context that the thread has asked about before. Throws Error.
Pointer finished(const Driver& driver, const void* address);

} // namespace gdr::cuda
