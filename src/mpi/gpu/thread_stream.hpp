// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The calling thread's stream on a GPU. It belongs to the layer, so that it waits for nobody's
// kernels, and to the GPU's primary context, which is current while this object exists, whatever
// the caller's context is.
#pragma once

#include "cuda/context.hpp"
#include "streams/device_streams.hpp"

#include <memory>
#include <optional>

namespace gdr::mpi {

// The thread that made it destroys it, in the reverse order of making.
class ThreadStream {
  public:
    ThreadStream(const cuda::Driver& driver, CUdevice device); // throws cuda::Error

    CUdevice device() const { return streams_.device(); }
    CUcontext context() const { return streams_.context(); }
    unsigned long long context_id() const { return streams_.context_id(); }
    CUstream handle() const { return stream_->handle(); }

    // Within the GPU's memory; complete on return. Throws cuda::Error.
    void copy(void* to, const void* from, size_t bytes) const;

    // Returns when all that was issued has ended. Throws cuda::Error.
    void wait() const { cuda::check(stream_->synchronise(), "cuStreamSynchronize"); }

    // The same, if the last work is a copy of `bytes` bytes of pinned host memory.
    void wait_for_copy(streams::Direction direction, size_t bytes) const
    {
        cuda::check(stream_->synchronise_copy(direction, bytes), "cuStreamSynchronize");
    }

    // Like wait(), but ignores errors: after it, no work of a failed call is under way.
    void settle() const { stream_->synchronise(); }

  private:
    const cuda::Driver& driver_;
    std::shared_ptr<const void> lease_; // of the streams, if the thread is at its end
    streams::DeviceStreams& streams_;
    std::optional<cuda::CurrentContext> entered_; // if it was not current
    streams::Stream* stream_;
};

} // namespace gdr::mpi
