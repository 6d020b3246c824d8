// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Driver calls while somebody captures a stream into a graph. In the capture mode of most
// frameworks CUDA refuses calls of any thread that the capture cannot see (an allocation, an event
// query), and the capture becomes invalid, unless the thread has switched to relaxed mode. We may
// do that, because none of our calls is part of the application's order.
#pragma once

#include "cuda/driver.hpp"

namespace gdr::cuda {

// Sets the calling thread's capture mode to CU_STREAM_CAPTURE_MODE_RELAXED as long as it lives.
// Costs two driver calls; none within another such scope. No code of the application may run in its
// scope. The thread that created the object must destroy it, in reverse order of creation.
class RelaxedCapture {
  public:
    explicit RelaxedCapture(const Driver& driver);
    ~RelaxedCapture();
    RelaxedCapture(const RelaxedCapture&) = delete;
    RelaxedCapture& operator=(const RelaxedCapture&) = delete;

  private:
    const Driver& driver_;
    bool outermost_;
    CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED; // the thread's previous mode
};

} // namespace gdr::cuda
