// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A cache of each thread for device memory that it asks about repeatedly: UCP asks for the type of
// a buffer at least three times and then has it copied.
#pragma once

#include "cuda/pointer.hpp"

#include <cstdint>

namespace gdr::cuda {

// How long an answer holds: cycles of the processor's clock, about 0.2 us. Freeing memory and
// allocating other at the same address takes longer, and ends all answers if it is seen (Freeing).
inline constexpr uint64_t kMoment = 500;

// Whether answers hold for a moment, as they do by default, or the driver is asked each time.
void trust_moments(bool trust);

// Memory is being freed by the call in whose scope this is. No answer holds while there is one, and
// none from before its end holds afterwards: the end takes a moment. So an answer about memory that
// is freed by such calls does not depend on how long they take. Any thread.
class Freeing {
  public:
    Freeing();
    Freeing(const Freeing&) = delete;
    Freeing& operator=(const Freeing&) = delete;
    ~Freeing();
};

// Whether an address still belongs to the allocation with this Pointer::buffer_id and
// finish_memops() has nothing to do for it. The address must lie in the range that classify()
// returned for the allocation. Costs one driver call, or none if the thread asked a moment ago.
bool still_finished(const Driver& driver, const void* address, uint64_t buffer_id);

// The same, but says nothing about finish_memops().
bool still_there(const Driver& driver, const void* address, uint64_t buffer_id);

// classify() followed by finish_memops(). Costs one driver call or none, as above, for memory of a
// context that the thread has asked about before. Throws Error.
Pointer finished(const Driver& driver, const void* address);

} // namespace gdr::cuda
