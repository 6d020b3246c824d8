// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Exchanges the thread's capture mode once for nested scopes.
#include "cuda/relaxed_capture.hpp"

namespace gdr::cuda {

namespace {

thread_local bool relaxed = false;

} // namespace

// If the driver refuses this call, the next call fails too and reports it.
RelaxedCapture::RelaxedCapture(const Driver& driver) : driver_(driver), outermost_(!relaxed)
{
    if (outermost_) {
        relaxed = outermost_ = driver_.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS;
    }
}

RelaxedCapture::~RelaxedCapture()
{
    if (outermost_) {
        driver_.cuThreadExchangeStreamCaptureMode(&mode_);
        relaxed = false;
    }
}

} // namespace gdr::cuda
