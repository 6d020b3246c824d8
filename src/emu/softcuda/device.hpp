// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The emulated devices and their memory: a range of device addresses the CPU cannot touch, and the
// bytes behind them in a memory file.
#pragma once

#include "emu/softcuda/address_space.hpp"
#include "emu/softcuda/api.hpp"

#include <mutex>
#include <vector>

namespace softcuda {

inline constexpr size_t kPage = 4096;
inline constexpr size_t kLargePage = size_t{2} << 20;

constexpr size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/// Bytes of a device: where they are in a device's memory file and where the CPU sees them.
struct Extent {
    int fd = -1; // of the memory file
    uint64_t offset = 0;
    char* alias = nullptr;
    size_t length = 0;
};

/// One device. Thread safe.
class Device {
  public:
    Device(int ordinal, size_t memory);

    int ordinal() const { return ordinal_; }
    size_t memory() const { return memory_; }
    size_t memory_free() const;
    AddressSpace& addresses() { return addresses_; }
    CUuuid uuid() const;

    /// Takes bytes of the device, in whole pages. Throws CUDA_ERROR_OUT_OF_MEMORY.
    Extent take(size_t length);

    /// Gives them back. The alias stays mapped, but to nobody's memory.
    void give_back(const Extent& extent);

  private:
    char* map_alias(size_t length);

    const int ordinal_;
    const size_t memory_;
    int fd_;
    AddressSpace addresses_;
    mutable std::mutex mutex_;
    size_t used_ = 0;
    uint64_t file_end_ = 0;
    char* chunk_ = nullptr; // alias of the file's tail, from which small extents are cut
    size_t chunk_left_ = 0;
};

/// Creates the devices; false where there are none or no address space is left for them.
bool open_devices();

int device_count();

/// Throws CUDA_ERROR_INVALID_DEVICE.
Device& device(CUdevice ordinal);

/// An attribute that all devices share; throws CUDA_ERROR_INVALID_VALUE for an unknown one.
int device_attribute(CUdevice_attribute attribute);

} // namespace softcuda
