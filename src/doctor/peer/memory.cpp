// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Allocating, filling, comparing.
#include "doctor/peer/memory.hpp"

#include "cuda/allocation.hpp"
#include "cuda/device.hpp"

#include <algorithm>
#include <stdexcept>

namespace gdr::peer {
namespace {

unsigned char byte_of(uint64_t seed, size_t position)
{
    const uint64_t mixed = (seed + 1) * 0x9e3779b97f4a7c15 + position * 0xbf58476d1ce4e5b9;
    return static_cast<unsigned char>(mixed >> 56);
}

CUdeviceptr on_gpu(void* address)
{
    return reinterpret_cast<CUdeviceptr>(address);
}

} // namespace

Memory::Memory(const std::string& kind, size_t length, const std::string& gpu) : length_(length)
{
    if (kind == "host") {
        host_.resize(length);
        address_ = host_.data();
        return;
    }
    driver_ = cuda::driver();
    if (driver_ == nullptr) {
        throw std::runtime_error(cuda::unavailable_reason());
    }
    const std::vector<cuda::Device> devices = cuda::devices(*driver_);
    const auto wanted = std::ranges::find(devices, gpu, &cuda::Device::pci_bus_id);
    const cuda::Device& device = wanted == devices.end() ? devices.front() : *wanted;
    gpu_ = device.pci_bus_id;
    context_.emplace(*driver_, device.handle);
    cuda::check(
        cuda::allocate(*driver_,
                       kind == "managed" ? cuda::MemoryKind::managed : cuda::MemoryKind::device,
                       context_->handle(), length, &address_),
        "allocating GPU memory");
}

Memory::~Memory()
{
    if (driver_ != nullptr && address_ != nullptr) {
        cuda::release(*driver_, address_);
    }
}

void Memory::fill(uint64_t seed)
{
    std::vector<unsigned char> bytes(length_);
    for (size_t i = 0; i < length_; ++i) {
        bytes[i] = byte_of(seed, i);
    }
    if (driver_ == nullptr) {
        std::ranges::copy(bytes, host_.begin()); // they stay where they are registered
        return;
    }
    const cuda::CurrentContext current(*driver_, context_->handle());
    cuda::check(driver_->cuMemcpy(on_gpu(address_), on_gpu(bytes.data()), length_), "cuMemcpy");
    // A copy from pageable memory may return before its bytes are there; reading waits for them.
    if (contents() != bytes) {
        throw std::runtime_error("GPU memory does not hold what was copied to it");
    }
}

bool Memory::has(uint64_t seed, size_t count, uint64_t before) const
{
    const std::vector<unsigned char> bytes = contents();
    for (size_t i = 0; i < length_; ++i) {
        if (bytes[i] != byte_of(i < count ? seed : before, i)) {
            return false;
        }
    }
    return true;
}

std::vector<unsigned char> Memory::contents() const
{
    if (driver_ == nullptr) {
        return host_;
    }
    std::vector<unsigned char> bytes(length_);
    const cuda::CurrentContext current(*driver_, context_->handle());
    cuda::check(driver_->cuMemcpy(on_gpu(bytes.data()), on_gpu(address_), length_), "cuMemcpy");
    return bytes;
}

size_t gpus()
{
    const cuda::Driver* driver = cuda::driver();
    return driver == nullptr ? 0 : cuda::devices(*driver).size();
}

} // namespace gdr::peer
