// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Opening once for each GPU, and closing.
#include "ipc/region.hpp"

#include "abi/host.hpp"
#include "ipc/opening.hpp"

#include <cstring>

namespace gdr::ipc {

Region::Region(const cuda::Driver& driver, int devices, const RemoteKey& key)
    : driver_(driver), devices_(devices), key_(key), bases_(new std::atomic<CUdeviceptr>[devices])
{
    for (int device = 0; device < devices_; ++device)
        bases_[device] = 0;
}

Region::~Region()
{
    for (CUdevice device = 0; device < devices_; ++device) {
        if (bases_[device] == 0)
            continue;
        try {
            const cuda::PrimaryContext primary(driver_, device);
            const cuda::CurrentContext current(driver_, primary.handle());
            close(driver_, key_, bases_[device]);
        } catch (const cuda::Error& error) {
            gdr_log(debug, "memory of process %u is not closed: %s", key_.pid, error.what());
        }
    }
}

CUdevice Region::first_device() const
{
    for (CUdevice device = 0; device < devices_; ++device) {
        if (bases_[device] != 0)
            return device;
    }
    return -1;
}

bool Region::is(const RemoteKey& other) const
{
    return memcmp(&key_, &other, sizeof(key_)) == 0;
}

CUdeviceptr Region::open(CUdevice device)
{
    const std::lock_guard guard(opening_);
    const uint64_t bit = uint64_t{1} << (device % 64);
    if (bases_[device] != 0 || (refused_by_ & bit) != 0)
        return bases_[device];
    try {
        const cuda::PrimaryContext primary(driver_, device);
        const cuda::CurrentContext current(driver_, primary.handle());
        bases_[device] = ipc::open(driver_, key_, device);
    } catch (const std::exception& error) {
        refused_by_ |= bit;
        gdr_log(info,
                "%llu bytes of GPU memory of process %u do not open for GPU %d and go over the "
                "HCA: %s",
                static_cast<unsigned long long>(key_.length), key_.pid, device, error.what());
    }
    return bases_[device];
}

} // namespace gdr::ipc
