// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Calls of the driver while somebody captures a stream into a graph. In the mode that frameworks
// capture in, any thread's call that the capture cannot see (an allocation, a query of an event)
// is refused and spoils the capture, unless that thread has said that it knows what it does. We
// do: nothing of ours is part of the application's order.
#pragma once

#include "cuda/driver.hpp"

namespace gdr::cuda {

// The calling thread's capture mode is CU_STREAM_CAPTURE_MODE_RELAXED as long as this lives. Costs
// two calls of the driver; none within the scope of another. No code of the application may run in
// its scope. To be destroyed by the thread that made it, in the reverse order of making.
class RelaxedCapture {
  public:
    explicit RelaxedCapture(const Driver& driver);
    ~RelaxedCapture();
    RelaxedCapture(const RelaxedCapture&) = delete;
    RelaxedCapture& operator=(const RelaxedCapture&) = delete;

  private:
    const Driver& driver_;
    bool outermost_;
    CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED; // of the thread before
};

} // namespace gdr::cuda
