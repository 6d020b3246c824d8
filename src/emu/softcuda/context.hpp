// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Contexts and each thread's stack of them.
#pragma once

#include "emu/softcuda/api.hpp"

/// A context. Objects are never freed, so that a handle kept too long is recognised as destroyed.
struct CUctx_st {
    int device;
    unsigned flags;
    bool primary;
    std::atomic<bool> alive;
    uint64_t id;            // new each time a primary context comes to life again
    unsigned retained;      // primary contexts: retains not yet released
    CUstream legacy_stream; // the stream with handle 0
    // How a kernel has failed, for good; CUDA_SUCCESS while none has.
    std::atomic<CUresult> failure;
};

namespace softcuda {

/// The context current to this thread; nullptr for none.
CUcontext current_context();

/// `context` itself, or the current one for nullptr. Throws CUDA_ERROR_INVALID_CONTEXT or
/// CUDA_ERROR_CONTEXT_IS_DESTROYED.
CUcontext live_context(CUcontext context);

/// Throws the error of a kernel that has failed in the context.
void require_no_failure(CUcontext context);

} // namespace softcuda
