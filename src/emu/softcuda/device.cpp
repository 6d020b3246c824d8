// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The emulated devices: enumeration, identity, and the memory file behind device addresses.
#include "emu/softcuda/device.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace softcuda {

namespace {

constexpr size_t kChunk = size_t{64} << 20;
constexpr int kMostDevices = 16;

/// The PCI domain of the emulated devices: none that a machine uses, so that nobody takes them for
/// devices in sysfs.
constexpr int kPciDomain = 0xc0da;

std::vector<std::unique_ptr<Device>>& devices()
{
    static auto& list = *new std::vector<std::unique_ptr<Device>>;
    return list;
}

size_t parse_size(const char* text)
{
    char* end = nullptr;
    size_t value = std::strtoull(text, &end, 0);
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

} // namespace

Device::Device(int ordinal, size_t memory)
    : ordinal_(ordinal), memory_(round_up(memory, kPage)),
      // Room for fragmentation and for reservations without memory behind them.
      addresses_(4 * round_up(memory, kLargePage))
{
    char name[32];
    std::snprintf(name, sizeof(name), "softcuda%d", ordinal);
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

CUuuid Device::uuid() const
{
    // The same in every process of a machine, as a GPU's is.
    CUuuid uuid{};
    std::snprintf(uuid.bytes, sizeof(uuid.bytes), "softcuda-%06d", ordinal_);
    return uuid;
}

char* Device::map_alias(size_t length)
{
    if (ftruncate(fd_, static_cast<off_t>(file_end_ + length)) != 0) {
        throw Error{CUDA_ERROR_OUT_OF_MEMORY};
    }
    void* alias = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_,
                       static_cast<off_t>(file_end_));
    require(alias != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
    file_end_ += length;
    return static_cast<char*>(alias);
}

Extent Device::take(size_t length)
{
    length = round_up(length, kPage);
    std::lock_guard guard(mutex_);
    require(length <= memory_ - used_, CUDA_ERROR_OUT_OF_MEMORY);
    // Offsets in the file only grow: no alias ever shows a later allocation's bytes.
    Extent extent;
    extent.fd = fd_;
    extent.length = length;
    if (length >= kLargePage) {
        extent.offset = file_end_;
        extent.alias = map_alias(length);
        chunk_left_ = 0; // the chunk is no longer the file's tail
    } else {
        if (chunk_left_ < length) {
            chunk_ = map_alias(kChunk);
            chunk_left_ = kChunk;
        }
        extent.offset = file_end_ - chunk_left_;
        extent.alias = chunk_ + (kChunk - chunk_left_);
        chunk_left_ -= length;
    }
    used_ += length;
    return extent;
}

void Device::give_back(const Extent& extent)
{
    fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(extent.offset),
              static_cast<off_t>(extent.length));
    if (extent.length >= kLargePage) {
        // Mapped afresh, so that the kernel drops the page tables of the old mapping.
        mmap(extent.alias, extent.length, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd_, static_cast<off_t>(extent.offset));
    }
    std::lock_guard guard(mutex_);
    used_ -= extent.length;
}

bool open_devices()
{
    int count = 2;
    if (const char* text = std::getenv("SOFTCUDA_DEVICES")) {
        count = std::clamp(std::atoi(text), 0, kMostDevices);
    }
    size_t memory = size_t{4} << 30;
    if (const char* text = std::getenv("SOFTCUDA_MEMORY")) {
        memory = parse_size(text);
    }
    try {
        while (device_count() < count) {
            devices().push_back(std::make_unique<Device>(device_count(), memory));
        }
    } catch (const std::bad_alloc&) {
        devices().clear();
    }
    return device_count() > 0;
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
        device(ordinal);
        std::snprintf(name, static_cast<size_t>(length), "softcuda emulated GPU");
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
        *uuid = device(ordinal).uuid();
    });
}

#undef cuDeviceGetUuid
SOFTCUDA_EXPORT CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice ordinal)
{
    return api(__func__, Needs::init, [&] {
        require(uuid != nullptr);
        *uuid = device(ordinal).uuid();
    });
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice ordinal)
{
    return api(__func__, Needs::init, [&] {
        require(text != nullptr && length > 0);
        device(ordinal);
        std::snprintf(text, static_cast<size_t>(length), "%04X:%02X:00.0", kPciDomain, ordinal + 1);
    });
}

CUresult cuDeviceGetByPCIBusId(CUdevice* handle, const char* text)
{
    return api(__func__, Needs::init, [&] {
        require(handle != nullptr && text != nullptr);
        unsigned domain = 0, bus = 0, slot = 0, function = 0;
        require(std::sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4 &&
                domain == kPciDomain && slot == 0 && function == 0);
        *handle = device(static_cast<int>(bus) - 1).ordinal();
    });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice ordinal)
{
    return api(__func__, Needs::init, [&] {
        require(value != nullptr);
        device(ordinal);
        switch (attribute) {
        case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
            *value = kPciDomain;
            break;
        case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
            *value = ordinal + 1;
            break;
        case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
            *value = 0;
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
        *can_access = device(ordinal).ordinal() != device(peer).ordinal();
    });
}

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                    CUflushGPUDirectRDMAWritesScope)
{
    return api(__func__, Needs::context, [&] {
        // What was written to the alias is visible to everybody already.
        require(target == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
    });
}
