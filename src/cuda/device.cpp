// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Enumerates the CUDA devices.
#include "cuda/device.hpp"

#include <cctype>
#include <cstdio>

namespace gdr::cuda {

namespace {

std::string uuid_text(const CUuuid& uuid)
{
    std::string text = "GPU-";
    for (size_t i = 0; i < sizeof(uuid.bytes); ++i) {
        char digits[3];
        std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
        text += digits;
        if (i == 3 || i == 5 || i == 7 || i == 9) {
            text += '-';
        }
    }
    return text;
}

std::string pci_bus_id(const Driver& driver, CUdevice device)
{
    char text[32] = "";
    check(driver.cuDeviceGetPCIBusId(text, sizeof(text), device), "cuDeviceGetPCIBusId");
    std::string id = text;
    for (char& c : id) {
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return id;
}

} // namespace

Device device(const Driver& driver, CUdevice handle)
{
    Device device{};
    device.handle = handle;
    char name[128] = "";
    check(driver.cuDeviceGetName(name, sizeof(name), device.handle), "cuDeviceGetName");
    device.name = name;
    device.pci_bus_id = pci_bus_id(driver, device.handle);
    CUuuid uuid{};
    check(driver.cuDeviceGetUuid(&uuid, device.handle), "cuDeviceGetUuid");
    device.uuid = uuid_text(uuid);
    check(driver.cuDeviceTotalMem(&device.memory, device.handle), "cuDeviceTotalMem");
    // Drivers before CUDA 11.7 do not know some attributes; such a driver lacks the feature.
    auto optional = [&](CUdevice_attribute which) {
        int value = 0;
        return driver.cuDeviceGetAttribute(&value, which, device.handle) == CUDA_SUCCESS ? value
                                                                                         : 0;
    };
    device.dmabuf = optional(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) != 0;
    device.shared = optional(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) == CU_COMPUTEMODE_DEFAULT;
    device.gpudirect_rdma = optional(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED) != 0;
    device.sees_rdma_writes = optional(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) >=
                              CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
    device.flushes_rdma_writes =
        driver.cuFlushGPUDirectRDMAWrites != nullptr &&
        (optional(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS) &
         CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST) != 0;
    return device;
}

std::vector<Device> devices(const Driver& driver)
{
    int count = 0;
    check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
    std::vector<Device> all;
    all.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
        CUdevice handle = 0;
        check(driver.cuDeviceGet(&handle, i), "cuDeviceGet");
        all.push_back(device(driver, handle));
    }
    return all;
}

} // namespace gdr::cuda
