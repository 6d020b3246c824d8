// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// One allocation of another process, opened for each GPU of this one that copies from or to it.
#pragma once

#include "cuda/context.hpp"
#include "ipc/remote_key.hpp"

#include <atomic>
#include <memory>
#include <mutex>

namespace gdr::ipc {

// Any thread.
class Region {
  public:
    Region(const cuda::Driver& driver, int devices, const RemoteKey& key);
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;
    virtual ~Region(); // closes

    const RemoteKey& key() const { return key_; }

    // Where a GPU reaches the byte at an address of the owner; 0 when it does not open, of which a
    // line in the log tells. Opens it where it is not; no call of the driver where it is.
    CUdeviceptr reach(CUdevice device, uint64_t address)
    {
        const CUdeviceptr base = bases_[device].load(std::memory_order_acquire);
        const CUdeviceptr opened = base != 0 ? base : open(device);
        return opened == 0 ? 0 : opened + (address - key_.base);
    }

    bool holds(uint64_t address, size_t length) const
    {
        return address >= key_.base && length <= key_.length &&
               address - key_.base <= key_.length - length;
    }

    // A GPU for which it is open; -1: none.
    CUdevice first_device() const;

    // What the key says of the allocation, and another: whether both are of the same one.
    bool is(const RemoteKey& other) const;

  private:
    CUdeviceptr open(CUdevice device);

    const cuda::Driver& driver_;
    const int devices_;
    const RemoteKey key_;
    std::mutex opening_;
    std::unique_ptr<std::atomic<CUdeviceptr>[]> bases_; // by GPU; 0: not opened
    uint64_t refused_by_ = 0;                           // GPUs for which it did not open
};

} // namespace gdr::ipc
