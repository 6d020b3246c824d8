// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Device memory that the calling thread is asked about again and again: UCP asks three times and
// more what a buffer is, and then has it copied.
#pragma once

#include "cuda/pointer.hpp"

#include <cstdint>

namespace gdr::cuda {

// Whether an address is of the allocation with this Pointer::buffer_id, as far as classify() told
// it of addresses of which this is one, and finish_memops() has nothing to do for it. One call of
// the driver; none where the thread asked it within the last 500 cycles of the processor's clock,
// some 0.2 us: cuMemFree and cuMemAlloc, which bring other memory to the same address, take longer.
bool still_finished(const Driver& driver, const void* address, uint64_t buffer_id);

// The same without a word on finish_memops().
bool still_there(const Driver& driver, const void* address, uint64_t buffer_id);

// classify(), with finish_memops(). One call of the driver, as above, for memory of a context that
// the thread has asked about before. Throws Error.
Pointer finished(const Driver& driver, const void* address);

} // namespace gdr::cuda
