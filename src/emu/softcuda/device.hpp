// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The emulated devices and their memory: a range of device addresses the CPU cannot touch, and the
// bytes behind them in a memory file.
#pragma once

#include "emu/softcuda/address_space.hpp"
#include "emu/softcuda/api.hpp"

#include <cstddef>
#include <map>
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
    // Of a device that does not order an HCA's writes: how far from the alias the bytes are as the
    // device sees them, until a flush brings what an HCA has written to the alias. 0: the same.
    std::ptrdiff_t view = 0;
};

/// Of a device by its number in the machine: the same in every process.
CUuuid uuid_of(int number);

/// One device that the process sees (CUDA_VISIBLE_DEVICES). Thread safe.
class Device {
  public:
    // Whether an HCA's writes are visible without a flush, and whether there is one.
    enum class Ordering { owner, by_flush, none };

    Device(int ordinal, int number, size_t memory, size_t bar1, CUcomputemode compute_mode,
           Ordering ordering, bool memops);

    int ordinal() const { return ordinal_; } // in the process
    int number() const { return number_; }   // in the machine
    size_t memory() const { return memory_; }
    CUcomputemode compute_mode() const { return compute_mode_; }
    Ordering ordering() const { return ordering_; }
    bool memops() const { return memops_; } // whether streams write and wait for words
    size_t memory_free() const;
    AddressSpace& addresses() { return addresses_; }

    /// Takes bytes of the device, in whole pages. Throws CUDA_ERROR_OUT_OF_MEMORY.
    Extent take(size_t length);

    /// Gives them back. The alias stays mapped, but to nobody's memory. Of what is held the device
    /// has the capacity back with the last hold.
    void give_back(const Extent& extent);

    /// Holds the extent of which the memory file has a part at an offset; false if there is none.
    bool hold(uint64_t offset);
    void let_go(uint64_t offset);

    /// Takes a part of the aperture through which others reach the device; false if it is full.
    bool take_bar1(size_t length);
    void give_back_bar1(size_t length);

  private:
    struct Taken {
        size_t length;
        unsigned holds = 0;
        bool freed = false;
    };
    using TakenByOffset = std::map<uint64_t, Taken>;

    char* alias_of_file_end(size_t length);
    TakenByOffset::iterator taken_at(uint64_t offset);
    void end_if_unused(TakenByOffset::iterator taken);

    const int ordinal_;
    const int number_;
    const size_t memory_;
    const size_t bar1_;
    const CUcomputemode compute_mode_;
    const Ordering ordering_;
    const bool memops_;
    int fd_;
    AddressSpace addresses_;
    mutable std::mutex mutex_;
    size_t used_ = 0;
    size_t bar1_used_ = 0;
    TakenByOffset taken_;
    uint64_t file_end_ = 0;
    char* window_ = nullptr; // alias of the file from its end on, as far as it is mapped
    size_t window_left_ = 0;
};

/// The bytes that a variable says, for that device of the machine: a number with the suffix K, M, G
/// or T.
size_t size_of(const char* variable, int number, const char* otherwise);

/// Creates the devices. Fails where the process sees none, CUDA_VISIBLE_DEVICES names one twice, or
/// no address space is left for them.
CUresult open_devices();

int device_count();

/// Throws CUDA_ERROR_INVALID_DEVICE.
Device& device(CUdevice ordinal);

/// The device with this number in the machine; nullptr where the process does not see it.
Device* device_of_machine(int number);

/// Whether one device of the machine may reach the other's memory (SOFTCUDA_P2P).
bool peers(int one, int other);

/// Whether the devices are joined to the CPU by C2C, as a GB200's (SOFTCUDA_CPU_LINK).
bool has_c2c();

/// By which of its ways memory may be shared with other processes (SOFTCUDA_IPC).
enum class Sharing { off, legacy, all, fabric };
Sharing sharing();

/// An attribute that all devices share; throws CUDA_ERROR_INVALID_VALUE for an unknown one.
int device_attribute(CUdevice_attribute attribute);

} // namespace softcuda
