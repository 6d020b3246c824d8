// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The emulated devices: enumeration, identity, and the memory file behind device addresses.
#include "emu/softcuda/device.hpp"

#include "emu/softcuda/machine.hpp"
#include "emu/softcuda/visible_devices.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

namespace softcuda {

namespace {

constexpr size_t kWindow = size_t{1} << 30; // of the memory file, mapped at once

std::vector<std::unique_ptr<Device>>& devices()
{
    static auto& list = *new std::vector<std::unique_ptr<Device>>;
    return list;
}

/// A variable's value for a device of the machine: of several, separated by commas, its own or else
/// the last.
std::optional<std::string> setting(const char* variable, int number)
{
    const char* text = std::getenv(variable);
    if (text == nullptr) {
        return std::nullopt;
    }
    for (const char* comma; number > 0 && (comma = std::strchr(text, ',')) != nullptr; --number) {
        text = comma + 1;
    }
    return std::string(text, std::strcspn(text, ","));
}

CUcomputemode compute_mode_of(int number)
{
    return setting("SOFTCUDA_COMPUTE_MODE", number) == "exclusive"
               ? CU_COMPUTEMODE_EXCLUSIVE_PROCESS
               : CU_COMPUTEMODE_DEFAULT;
}

Device::Ordering ordering_of(int number)
{
    const auto text = setting("SOFTCUDA_RDMA_ORDERING", number);
    return text == "flush"  ? Device::Ordering::by_flush
           : text == "none" ? Device::Ordering::none
                            : Device::Ordering::owner;
}

bool memops_of(int number)
{
    return setting("SOFTCUDA_MEMOPS", number) != "0";
}

} // namespace

CUuuid uuid_of(int number)
{
    CUuuid uuid{};
    std::snprintf(uuid.bytes, sizeof(uuid.bytes), "%02d softcuda GPU", number);
    return uuid;
}

Device::Device(int ordinal, int number, size_t memory, size_t bar1, CUcomputemode compute_mode,
               Ordering ordering, bool memops)
    : ordinal_(ordinal), number_(number), memory_(round_up(memory, kPage)), bar1_(bar1),
      compute_mode_(compute_mode), ordering_(ordering), memops_(memops),
      // Room for fragmentation and for reservations without memory behind them.
      addresses_(4 * round_up(memory, kLargePage))
{
    char name[32];
    std::snprintf(name, sizeof(name), "softcuda%d", number);
    fd_ = memfd_create(name, MFD_CLOEXEC);
    if (fd_ < 0) {
        throw std::bad_alloc();
    }
}

size_t Device::memory_free() const
{
    std::lock_guard guard(mutex_);
    return memory_ - used_;
}

// A mapping for each extent would use up those that a process may have (vm.max_map_count).
char* Device::alias_of_file_end(size_t length)
{
    if (window_left_ < length) {
        const size_t size = round_up(length, kWindow);
        if (ftruncate(fd_, static_cast<off_t>(file_end_ + size)) != 0) {
            throw Error{CUDA_ERROR_OUT_OF_MEMORY};
        }
        void* window = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_,
                            static_cast<off_t>(file_end_));
        require(window != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
        window_ = static_cast<char*>(window);
        window_left_ = size;
    }
    char* alias = window_;
    window_ += length;
    window_left_ -= length;
    return alias;
}

Extent Device::take(size_t length)
{
    length = round_up(length, kPage);
    std::lock_guard guard(mutex_);
    require(length <= memory_ - used_, CUDA_ERROR_OUT_OF_MEMORY);
    // Offsets in the file only grow: no alias ever shows a later allocation's bytes.
    Extent extent{
        .fd = fd_, .offset = file_end_, .alias = alias_of_file_end(length), .length = length};
    file_end_ += length;
    if (ordering_ != Ordering::owner) {
        void* view = mmap(nullptr, length, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        require(view != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
        extent.view = static_cast<char*>(view) - extent.alias;
    }
    used_ += length;
    taken_.emplace(extent.offset, Taken{length});
    return extent;
}

void Device::give_back(const Extent& extent)
{
    fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(extent.offset),
              static_cast<off_t>(extent.length));
    if (extent.length >= kLargePage) {
        // Mapped afresh, so that the kernel drops the page tables of the old mapping.
        static_cast<void>(mmap(extent.alias, extent.length, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd_,
                               static_cast<off_t>(extent.offset)));
    }
    if (extent.view != 0) { // stays mapped, as the alias does
        madvise(extent.alias + extent.view, extent.length, MADV_DONTNEED);
    }
    std::lock_guard guard(mutex_);
    auto taken = taken_.find(extent.offset);
    taken->second.freed = true;
    end_if_unused(taken);
}

Device::TakenByOffset::iterator Device::taken_at(uint64_t offset)
{
    auto next = taken_.upper_bound(offset);
    if (next == taken_.begin() ||
        offset - std::prev(next)->first >= std::prev(next)->second.length) {
        return taken_.end();
    }
    return std::prev(next);
}

void Device::end_if_unused(TakenByOffset::iterator taken)
{
    if (taken->second.freed && taken->second.holds == 0) {
        used_ -= taken->second.length;
        taken_.erase(taken);
    }
}

bool Device::hold(uint64_t offset)
{
    std::lock_guard guard(mutex_);
    auto taken = taken_at(offset);
    if (taken == taken_.end()) {
        return false;
    }
    ++taken->second.holds;
    return true;
}

void Device::let_go(uint64_t offset)
{
    std::lock_guard guard(mutex_);
    auto taken = taken_at(offset);
    --taken->second.holds;
    end_if_unused(taken);
}

bool Device::take_bar1(size_t length)
{
    std::lock_guard guard(mutex_);
    if (length > bar1_ - bar1_used_) {
        return false;
    }
    bar1_used_ += length;
    return true;
}

void Device::give_back_bar1(size_t length)
{
    std::lock_guard guard(mutex_);
    bar1_used_ -= length;
}

size_t size_of(const char* variable, int number, const char* otherwise)
{
    const std::string text = setting(variable, number).value_or(otherwise);
    char* end = nullptr;
    size_t value = std::strtoull(text.c_str(), &end, 0);
    switch (*end) {
    case 'T':
        value <<= 10;
        [[fallthrough]];
    case 'G':
        value <<= 10;
        [[fallthrough]];
    case 'M':
        value <<= 10;
        [[fallthrough]];
    case 'K':
        value <<= 10;
        break;
    default:
        break;
    }
    return value;
}

CUresult open_devices()
{
    try {
        for (const int number : visible_devices(devices_of_machine())) {
            devices().push_back(std::make_unique<Device>(
                device_count(), number, size_of("SOFTCUDA_MEMORY", number, "4G"),
                size_of("SOFTCUDA_BAR1", number, "1T"), compute_mode_of(number),
                ordering_of(number), memops_of(number)));
        }
    } catch (const std::bad_alloc&) {
        devices().clear();
    } catch (const Error& error) {
        return error.result;
    }
    return devices().empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

int device_count()
{
    return static_cast<int>(devices().size());
}

Device& device(CUdevice ordinal)
{
    require(ordinal >= 0 && ordinal < device_count(), CUDA_ERROR_INVALID_DEVICE);
    return *devices()[static_cast<size_t>(ordinal)];
}

Device* device_of_machine(int number)
{
    const auto found = std::ranges::find(devices(), number, [](auto& of) { return of->number(); });
    return found == devices().end() ? nullptr : found->get();
}

bool peers(int one, int other)
{
    return one == other || setting("SOFTCUDA_P2P", 0) != "off";
}

bool has_c2c()
{
    return setting("SOFTCUDA_CPU_LINK", 0) == "c2c";
}

Sharing sharing()
{
    const auto text = setting("SOFTCUDA_IPC", 0);
    return text == "off"      ? Sharing::off
           : text == "legacy" ? Sharing::legacy
           : text == "fabric" ? Sharing::fabric
                              : Sharing::all;
}

} // namespace softcuda

using namespace softcuda;

CUresult cuDeviceGetCount(int* count)
{
    return api(__func__, Needs::init, [&] {
        require(count != nullptr);
        *count = device_count();
    });
}

CUresult cuDeviceGet(CUdevice* handle, int ordinal)
{
    return api(__func__, Needs::init, [&] {
        require(handle != nullptr);
        *handle = device(ordinal).ordinal();
    });
}

CUresult cuDeviceGetName(char* name, int length, CUdevice ordinal)
{
    return api(__func__, Needs::init, [&] {
        require(name != nullptr && length > 0);
        std::snprintf(name, static_cast<size_t>(length), "%s",
                      model_of(device(ordinal).number()).c_str());
    });
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice ordinal)
{
    return api(__func__, Needs::init, [&] {
        require(bytes != nullptr);
        *bytes = device(ordinal).memory();
    });
}

SOFTCUDA_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice ordinal)
{
    return api(__func__, Needs::init, [&] {
        require(uuid != nullptr);
        *uuid = uuid_of(device(ordinal).number());
    });
}

#undef cuDeviceGetUuid
SOFTCUDA_EXPORT CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice ordinal)
{
    return api(__func__, Needs::init, [&] {
        require(uuid != nullptr);
        *uuid = uuid_of(device(ordinal).number());
    });
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice ordinal)
{
    return api(__func__, Needs::init, [&] {
        require(text != nullptr && length > 0);
        const PciAddress address = pci_address_of(device(ordinal).number());
        std::snprintf(text, static_cast<size_t>(length), "%04X:%02X:%02X.0", address.domain,
                      address.bus, address.device);
    });
}

CUresult cuDeviceGetByPCIBusId(CUdevice* handle, const char* text)
{
    return api(__func__, Needs::init, [&] {
        require(handle != nullptr && text != nullptr);
        const int number = number_at(text);
        require(number >= 0);
        const Device* const found = device_of_machine(number);
        require(found != nullptr, CUDA_ERROR_INVALID_DEVICE);
        *handle = found->ordinal();
    });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice ordinal)
{
    return api(__func__, Needs::init, [&] {
        require(value != nullptr);
        device(ordinal);
        switch (attribute) {
        case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
            *value = device(ordinal).compute_mode();
            break;
        case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
            *value = device(ordinal).ordering() == Device::Ordering::owner
                         ? CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER
                         : CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE;
            break;
        case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
            *value = device(ordinal).ordering() == Device::Ordering::none
                         ? 0
                         : CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST;
            break;
        case CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES:
            *value = device(ordinal).ordering() == Device::Ordering::by_flush;
            break;
        case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
        case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
            *value = device(ordinal).memops();
            break;
        case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
            *value = static_cast<int>(pci_address_of(device(ordinal).number()).domain);
            break;
        case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
            *value = static_cast<int>(pci_address_of(device(ordinal).number()).bus);
            break;
        case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
            *value = static_cast<int>(pci_address_of(device(ordinal).number()).device);
            break;
        default:
            *value = device_attribute(attribute);
            break;
        }
    });
}

CUresult cuDeviceCanAccessPeer(int* can_access, CUdevice ordinal, CUdevice peer)
{
    return api(__func__, Needs::init, [&] {
        require(can_access != nullptr);
        const int self = device(ordinal).number(), other = device(peer).number();
        *can_access = self != other && peers(self, other);
    });
}
