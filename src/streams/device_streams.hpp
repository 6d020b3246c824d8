// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Our streams on one GPU, each created at its first use. They live in the GPU's primary context,
// which we retain: unlike a context of the application's own, only a device reset can destroy it
// under us.
#pragma once

#include "cuda/context.hpp"
#include "streams/stream.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace gdr::streams {

class DeviceStreams {
  public:
    // Creates the GPU's primary context if the application has not. Throws cuda::Error.
    DeviceStreams(const cuda::Driver& driver, CUdevice device);
    DeviceStreams(const DeviceStreams&) = delete;
    DeviceStreams& operator=(const DeviceStreams&) = delete;
    ~DeviceStreams();

    CUdevice device() const { return device_; }
    CUcontext context() const { return context_->handle(); }

    // Unlike the handle, it is never reused for another context. 0 with a driver older than CUDA
    // 12.
    unsigned long long context_id() const { return context_id_; }

    // Whether the context is alive and the calling thread's current one; always false before CUDA
    // 12.
    bool current() const { return cuda::is_current(driver_, context_id_); }

    // Creates the stream at its first use; streams are numbered from 0. The context must be
    // current. Throws cuda::Error.
    Stream& operator[](size_t number);

    template <class Function>
    void for_each_busy(Function function)
    {
        for (auto& stream : streams_) {
            if (stream && stream->busy()) {
                function(*stream);
            }
        }
    }

    bool owns(const Stream& stream) const;

    // Whether the context still exists; always true before CUDA 12.
    bool alive() const;

    // Destroys the streams if a device reset has destroyed their context (detected from CUDA 12
    // on). Appends the operations that were in flight to lost, with an error. Throws cuda::Error.
    void renew_after_reset(std::vector<Operation>& lost);

  private:
    void enter_context();
    void abandon();

    const cuda::Driver& driver_;
    const CUdevice device_;
    std::optional<cuda::PrimaryContext> context_;
    unsigned long long context_id_ = 0;
    std::vector<std::unique_ptr<Stream>> streams_; // by number; NULL: not used yet
};

} // namespace gdr::streams
