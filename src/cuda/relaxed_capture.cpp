// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Exchanging the thread's capture mode, once for scopes within each other.
#include "cuda/relaxed_capture.hpp"

namespace gdr::cuda {

namespace {

thread_local bool relaxed = false;

} // namespace

// A driver that refuses this refuses what comes next too, which then tells.
RelaxedCapture::RelaxedCapture(const Driver& driver) : driver_(driver), outermost_(!relaxed)
{
    if (outermost_)
        relaxed = outermost_ = driver_.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS;
}

RelaxedCapture::~RelaxedCapture()
{
    if (outermost_) {
        driver_.cuThreadExchangeStreamCaptureMode(&mode_);
        relaxed = false;
    }
}

} // namespace gdr::cuda
