// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A libnvidia-ml.so.1 beside the emulated driver: of NVIDIA's management library what tells how
// GPUs are joined: all those of the machine, whatever CUDA_VISIBLE_DEVICES says; and what Python's
// pynvml and UCXX cannot do without.
#include "emu/softcuda/machine.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define NVML_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kSuccess = 0, kInvalidArgument = 2, kNotSupported = 3;

using Device = void*; // nvmlDevice_t: the number, from 1

struct PciInfo { // nvmlPciInfo_t
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char address[32];
};

struct FieldValue { // nvmlFieldValue_t
    unsigned field;
    unsigned scope;
    long long timestamp;
    long long latency;
    int value_type;
    int result;
    union {
        unsigned whole;
        unsigned long long long_whole;
    };
};

constexpr unsigned kLinks = 18;
constexpr unsigned kMegabytesPerSecond = 26'562;

bool by_nvlink()
{
    const char* link = std::getenv("SOFTCUDA_LINK");
    return link == nullptr || std::strcmp(link, "pcie") != 0;
}

bool peers()
{
    const char* peers = std::getenv("SOFTCUDA_P2P");
    return peers == nullptr || std::strcmp(peers, "off") != 0;
}

} // namespace

NVML_EXPORT int nvmlInit_v2()
{
    return kSuccess;
}

NVML_EXPORT int nvmlInitWithFlags(unsigned)
{
    return kSuccess;
}

NVML_EXPORT int nvmlShutdown()
{
    return kSuccess;
}

NVML_EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* text, Device* device)
{
    const int number = text == nullptr || device == nullptr ? -1 : softcuda::number_at(text);
    if (number < 0) {
        return kInvalidArgument;
    }
    *device = reinterpret_cast<Device>(static_cast<size_t>(number) + 1);
    return kSuccess;
}

NVML_EXPORT int nvmlDeviceGetCount_v2(unsigned* count)
{
    *count = static_cast<unsigned>(softcuda::devices_of_machine());
    return kSuccess;
}

NVML_EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device)
{
    if (device == nullptr || index >= static_cast<unsigned>(softcuda::devices_of_machine())) {
        return kInvalidArgument;
    }
    *device = reinterpret_cast<Device>(static_cast<size_t>(index) + 1);
    return kSuccess;
}

NVML_EXPORT int nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info)
{
    *info = {};
    const softcuda::PciAddress address =
        softcuda::pci_address_of(static_cast<int>(reinterpret_cast<size_t>(device)) - 1);
    info->domain = address.domain;
    info->bus = address.bus;
    info->device = address.device;
    std::snprintf(info->address, sizeof(info->address), "%08X:%02X:%02X.0", address.domain,
                  address.bus, address.device);
    return kSuccess;
}

NVML_EXPORT int nvmlDeviceGetP2PStatus(Device, Device, int capability, int* status)
{
    constexpr int kNvlink = 2;                       // NVML_P2P_CAPS_INDEX_NVLINK
    constexpr int kStatusOk = 0, kStatusUnknown = 6; // NVML_P2P_STATUS_*
    *status = peers() && (capability != kNvlink || by_nvlink()) ? kStatusOk : kStatusUnknown;
    return kSuccess;
}

NVML_EXPORT int nvmlDeviceGetFieldValues(Device, int count, FieldValue* values)
{
    for (int i = 0; i < count; ++i) {
        values[i].result = kSuccess;
        values[i].long_whole = 0;
        if (values[i].field == 91) { // NVML_FI_DEV_NVLINK_LINK_COUNT
            values[i].whole = kLinks;
        } else if (values[i].field == 164 &&
                   values[i].scope < kLinks) { // NVML_FI_DEV_NVLINK_GET_SPEED
            values[i].whole = kMegabytesPerSecond;
        } else if (values[i].field !=
                   90) { // NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON: 0, as of an H200
            values[i].result = kNotSupported;
        }
    }
    return kSuccess;
}

NVML_EXPORT int nvmlDeviceGetNvLinkState(Device, unsigned link, int* active)
{
    *active = by_nvlink() && link < kLinks;
    return kSuccess;
}

NVML_EXPORT int nvmlDeviceGetMaxPcieLinkGeneration(Device, unsigned* generation)
{
    *generation = 5;
    return kSuccess;
}

NVML_EXPORT int nvmlDeviceGetCurrPcieLinkWidth(Device, unsigned* width)
{
    *width = 16;
    return kSuccess;
}

NVML_EXPORT int nvmlDeviceGetMemoryInfo(Device, void*)
{
    return kNotSupported; // the driver knows: cuMemGetInfo
}
