// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A GPU, real or emulated, with a stream and buffers in its memory.
#pragma once

#include "cuda/allocation.hpp"
#include "cuda/context.hpp"
#include "cuda/driver.hpp"

#include <cstdint>
#include <span>
#include <vector>

class Gpu {
  public:
    explicit Gpu(const gdr::cuda::Driver& driver)
        : driver_(driver), primary_(driver, 0), current_(driver, primary_.handle())
    {
        gdr::cuda::check(driver.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    }
    Gpu(const Gpu&) = delete;
    Gpu& operator=(const Gpu&) = delete;
    ~Gpu() { driver_.cuStreamDestroy(stream_); }

    const gdr::cuda::Driver& driver() const { return driver_; }
    CUcontext context() const { return primary_.handle(); }
    CUstream stream() const { return stream_; }
    void wait() const
    {
        gdr::cuda::check(driver_.cuStreamSynchronize(stream_), "cuStreamSynchronize");
    }

  private:
    const gdr::cuda::Driver& driver_;
    const gdr::cuda::PrimaryContext primary_;
    const gdr::cuda::CurrentContext current_;
    CUstream stream_ = nullptr;
};

class DeviceBuffer {
  public:
    DeviceBuffer(const Gpu& gpu, size_t size) : gpu_(gpu), size_(size)
    {
        gdr::cuda::check(gdr::cuda::allocate(gpu.driver(), gdr::cuda::MemoryKind::device, nullptr,
                                             size, &address_),
                         "cuMemAlloc");
    }
    DeviceBuffer(const Gpu& gpu, std::span<const uint8_t> bytes) : DeviceBuffer(gpu, bytes.size())
    {
        write(bytes);
    }
    DeviceBuffer(const DeviceBuffer&) = delete;
    DeviceBuffer& operator=(const DeviceBuffer&) = delete;
    ~DeviceBuffer() { gdr::cuda::release(gpu_.driver(), address_); }

    uint8_t* address() const { return static_cast<uint8_t*>(address_); }

    void write(std::span<const uint8_t> bytes) { copy(address_, bytes.data(), bytes.size()); }
    std::vector<uint8_t> read() const
    {
        std::vector<uint8_t> bytes(size_);
        copy(bytes.data(), address_, size_);
        return bytes;
    }

  private:
    void copy(void* to, const void* from, size_t size) const
    {
        gdr::cuda::check(gpu_.driver().cuMemcpyAsync(reinterpret_cast<uintptr_t>(to),
                                                     reinterpret_cast<uintptr_t>(from), size,
                                                     gpu_.stream()),
                         "cuMemcpyAsync");
        gpu_.wait();
    }

    const Gpu& gpu_;
    const size_t size_;
    void* address_ = nullptr;
};
