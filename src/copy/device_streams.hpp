// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The streams on one GPU: one for each direction, so that copies both ways overlap, and one that
// the synchronous copies have for themselves. They live in the GPU's primary context, which is
// retained: it cannot be destroyed under us as one of the application's own contexts can, except by
// a device reset.
#pragma once

#include "copy/stream.hpp"
#include "cuda/context.hpp"

#include <array>
#include <memory>
#include <optional>
#include <vector>

namespace gdr::copy {

enum class Route { to_device, from_device, within_devices, synchronous };
inline constexpr size_t kRoutes = 4;

class DeviceStreams {
  public:
    // Creates the GPU's primary context if the application has not. Throws cuda::Error.
    DeviceStreams(const cuda::Driver& driver, CUdevice device);
    DeviceStreams(const DeviceStreams&) = delete;
    DeviceStreams& operator=(const DeviceStreams&) = delete;
    ~DeviceStreams();

    CUdevice device() const { return device_; }
    CUcontext context() const { return context_->handle(); }

    Stream& operator[](Route route) { return *streams_[static_cast<size_t>(route)]; }
    auto begin() { return streams_.begin(); }
    auto end() { return streams_.end(); }

    // Makes the streams anew if a device reset has destroyed their context (noticed from CUDA 12
    // on). What was in flight on them is appended to lost, with an error. Throws cuda::Error.
    void renew_after_reset(std::vector<Operation>& lost);

  private:
    void create();
    bool alive() const;
    void abandon();

    const cuda::Driver& driver_;
    const CUdevice device_;
    std::optional<cuda::PrimaryContext> context_;
    unsigned long long context_id_ = 0; // unlike the handle, never that of another context
    std::array<std::unique_ptr<Stream>, kRoutes> streams_;
};

} // namespace gdr::copy
