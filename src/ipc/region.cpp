// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Opens memory once for each GPU, and closes it.
#include "ipc/region.hpp"

#include "ipc/descriptor_server.hpp"
#include "ipc/opening.hpp"
#include "log/log.hpp"

#include <cstring>
#include <deque>
#include <system_error>
#include <utility>
#include <vector>

namespace gdr::ipc {

namespace {

int count_devices(const cuda::Driver& driver)
{
    int count = 0;
    cuda::check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
    return count;
}

bool has_result(const std::exception& error, CUresult result)
{
    const auto* const of_cuda = dynamic_cast<const cuda::Error*>(&error);
    return of_cuda != nullptr && of_cuda->result() == result;
}

// Whether the error is a lack of GPU memory, host memory or file descriptors, which may end.
bool is_shortage(const std::exception& error)
{
    if (const auto* const of_system = dynamic_cast<const std::system_error*>(&error)) {
        const std::errc lacking[] = {std::errc::too_many_files_open,
                                     std::errc::too_many_files_open_in_system,
                                     std::errc::not_enough_memory, std::errc::no_buffer_space};
        return std::ranges::any_of(lacking,
                                   [&](std::errc what) { return of_system->code() == what; });
    }
    return has_result(error, CUDA_ERROR_OUT_OF_MEMORY);
}

class Storage {
  public:
    static Storage& instance()
    {
        static auto& instance = *new Storage; // threads may look at regions until the end
        return instance;
    }

    Region* take(const cuda::Driver& driver)
    {
        const std::lock_guard guard(mutex_);
        if (free_.empty()) {
            static const int devices = count_devices(driver);
            free_.reserve(all_.size() + 1); // so that give() does not throw
            return &all_.emplace_back(driver, devices);
        }
        Region* region = free_.back();
        free_.pop_back();
        return region;
    }

    void give(Region* region) noexcept
    {
        const std::lock_guard guard(mutex_);
        free_.push_back(region);
    }

  private:
    std::mutex mutex_;
    std::deque<Region> all_;
    std::vector<Region*> free_;
};

} // namespace

Region::Owned Region::make(const cuda::Driver& driver, const RemoteKey& key)
{
    Owned region(Storage::instance().take(driver));
    region->key_ = key;
    region->stale = false;
    region->left_over = false;
    region->opened_ = false;
    region->pause_.end();
    region->uses_.store(1, std::memory_order_release); // last: from here on others can use it
    return region;
}

void Region::End::operator()(Region* region) const
{
    region->close();
    Storage::instance().give(region);
}

Region::Region(const cuda::Driver& driver, int devices)
    : driver_(driver), devices_(devices), openings_(new Opening[devices])
{
}

void Region::close()
{
    for (CUdevice device = 0; device < devices_; ++device) {
        openings_[device].logged = false;
        const CUdeviceptr base = openings_[device].base.exchange(kNotOpen);
        if (base == kNotOpen || base == kRefused) {
            continue;
        }
        try {
            const cuda::PrimaryContext primary(driver_, device);
            if (cuda::context_id(driver_, primary.handle()) != openings_[device].context_id) {
                continue; // a device reset has closed it
            }
            const cuda::CurrentContext current(driver_, primary.handle());
            ipc::close(driver_, key_, base);
        } catch (const cuda::Error& error) {
            gdr_log(debug, "memory of process %u is not closed: %s", key_.pid, error.what());
        }
    }
}

CUdevice Region::first_device() const
{
    for (CUdevice device = 0; device < devices_; ++device) {
        if (const CUdeviceptr base = openings_[device].base; base != kNotOpen && base != kRefused) {
            return device;
        }
    }
    return -1;
}

bool Region::is(const RemoteKey& other) const
{
    return memcmp(&key_, &other, sizeof(key_)) == 0;
}

bool Region::try_use(size_t* no_longer_idle)
{
    uint32_t uses = uses_.load(std::memory_order_relaxed);
    while (uses != kClaimed) {
        if (uses_.compare_exchange_weak(uses, (uses & ~kIdle) + 1)) {
            *no_longer_idle = uses == kIdle ? bytes() : 0;
            return true;
        }
    }
    return false;
}

size_t Region::end_use(bool* last)
{
    const size_t all = bytes(); // read before the region may be reused
    uint32_t uses = uses_.load(std::memory_order_relaxed), after;
    do {
        *last = uses == 1;
        after = *last && opened_ ? kIdle : uses - 1;
    } while (!uses_.compare_exchange_weak(uses, after));
    return after == kIdle ? all : 0;
}

bool Region::claim(size_t* no_longer_idle)
{
    uint32_t uses = uses_.load(std::memory_order_relaxed);
    while (uses == 0 || uses == kIdle) {
        if (uses_.compare_exchange_weak(uses, kClaimed)) {
            *no_longer_idle = uses == kIdle ? bytes() : 0;
            return true;
        }
    }
    return false;
}

bool Region::open_for(CUdevice device)
{
    CUdeviceptr base = openings_[device].base.load(std::memory_order_acquire);
    if (base == kNotOpen) {
        base = open(device);
    }
    return base != kNotOpen && base != kRefused;
}

bool Region::is_to_wait()
{
    return pause_.lasts() || (key_.sharing == Sharing::descriptor && is_silent(key_.owner));
}

CUdeviceptr Region::open(CUdevice device)
{
    Opening& opening = openings_[device];
    const std::lock_guard guard(opening_);
    collides_ = false;
    if (opening.base == kNotOpen && is_to_wait()) {
        return kNotOpen;
    }
    try {
        const cuda::PrimaryContext primary(driver_, device);
        const unsigned long long context_id = cuda::context_id(driver_, primary.handle());
        if (opening.base != kNotOpen && opening.context_id == context_id) {
            return opening.base; // opened by another thread
        }
        opening.base = kNotOpen; // a device reset has closed it
        opening.context_id.store(context_id, std::memory_order_release);
        const cuda::CurrentContext current(driver_, primary.handle());
        opening.base.store(ipc::open(driver_, key_, device), std::memory_order_release);
        opened_ = true;
        pause_.end();
    } catch (const std::exception& error) {
        // CUDA opens no second allocation in the same block at the same place.
        collides_ = has_result(error, CUDA_ERROR_ALREADY_MAPPED);
        if (collides_) {
            return kNotOpen;
        }
        if (is_shortage(error)) {
            pause_.begin();
        } else if (dynamic_cast<const NoAnswer*>(&error) == nullptr) {
            opening.base = kRefused;
        }
        log_refused(device, error);
    }
    return opening.base;
}

void Region::put_off()
{
    const std::lock_guard guard(opening_);
    pause_.begin();
}

void Region::log_refused(CUdevice device, const std::exception& error)
{
    if (std::exchange(openings_[device].logged, true)) {
        return;
    }
    gdr_log(info,
            "%llu bytes of GPU memory of process %u do not open for GPU %d and go over the HCA: %s",
            static_cast<unsigned long long>(key_.length), key_.pid, device, error.what());
}

} // namespace gdr::ipc
