// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// An allocation of another process, opened for each GPU of this process that copies from or to it.
#pragma once

#include "cuda/context.hpp"
#include "ipc/pause.hpp"
#include "ipc/remote_key.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>

namespace gdr::ipc {

// Any thread. The storage of a closed region is reused and never returned to the system, so a
// thread may try a remembered pointer whatever became of the region.
class Region {
  public:
    // Closes the memory and keeps the storage.
    struct End {
        void operator()(Region* region) const;
    };
    using Owned = std::unique_ptr<Region, End>;

    // The new region has one use.
    static Owned make(const cuda::Driver& driver, const RemoteKey& key);

    Region(const cuda::Driver& driver, int devices);
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

    const RemoteKey& key() const { return key_; }

    // Address at which a GPU accesses a byte of the owner's memory; 0 if it does not open, which is
    // logged once. context_id: of the GPU's primary context (cuda::context_id()); after a device
    // reset it differs, and what was open is gone. Opens the memory if necessary. Makes no driver
    // call and takes no lock if the memory is open or known not to open.
    CUdeviceptr reach(CUdevice device, unsigned long long context_id, uint64_t address)
    {
        const Opening& opening = openings_[device];
        const bool same = opening.context_id.load(std::memory_order_acquire) == context_id;
        CUdeviceptr base = same ? opening.base.load(std::memory_order_acquire) : kNotOpen;
        if (base == kNotOpen) [[unlikely]] {
            base = open(device);
        }
        return base == kNotOpen || base == kRefused ? 0 : base + (address - key_.base);
    }

    bool holds(uint64_t address, size_t length) const
    {
        return address >= key_.base && length <= key_.length &&
               address - key_.base <= key_.length - length;
    }

    // A GPU for which the memory is open; -1: none.
    CUdevice first_device() const;

    // Opens the memory for a GPU if necessary. Returns whether it is open.
    bool open_for(CUdevice device);

    // Whether opening failed because earlier memory at the same place is still open in this
    // process. Once that is closed, opening can be retried.
    bool collides() const { return collides_; }

    // Makes later calls retry less often.
    void put_off();

    // Whether both keys are of the same allocation.
    bool is(const RemoteKey& other) const;

    // Uses are counted. A region without uses is idle if it was ever open. The results are the
    // bytes that become idle or stop being idle. At least 2 MiB count, because memory is mapped in
    // pages of that size and its owner does not get back less.
    bool try_use(size_t* no_longer_idle);           // false: it is closed or about to be
    size_t end_use(bool* last);                     // returns the bytes that become idle
    bool is_idle() const { return uses_ == kIdle; } // and its bytes count as idle

    // Whether nobody uses the region; from then on nobody can.
    bool claim(size_t* no_longer_idle);

    // Set when the owner has other memory at the same addresses.
    std::atomic<bool> stale{false};

    // Set when the last endpoint to the owner is gone while the region is used.
    std::atomic<bool> left_over{false};

    // When the region was last released, as a count of releases.
    std::atomic<uint64_t> idle_since{0};

  private:
    static constexpr CUdeviceptr kNotOpen = 0;
    static constexpr CUdeviceptr kRefused = 1; // no mapping begins there
    static constexpr uint32_t kClaimed = UINT32_MAX;
    static constexpr uint32_t kIdle = 1u << 31; // no uses, and its bytes count as idle

    struct Opening {
        std::atomic<CUdeviceptr> base{kNotOpen};
        std::atomic<unsigned long long> context_id{0}; // the context of base
        bool logged = false;                           // that it does not open
    };

    size_t bytes() const { return std::max<size_t>(key_.length, size_t{2} << 20); }
    bool is_to_wait(); // skip this attempt
    CUdeviceptr open(CUdevice device);
    void log_refused(CUdevice device, const std::exception& error);
    void close();

    const cuda::Driver& driver_;
    const int devices_;
    RemoteKey key_;
    std::atomic<uint32_t> uses_{kClaimed};
    std::unique_ptr<Opening[]> openings_; // by GPU
    std::mutex opening_;
    std::atomic<bool> collides_{false};
    std::atomic<bool> opened_{false}; // at any time in the past
    Pause pause_;                     // between two attempts while something is lacking
};

} // namespace gdr::ipc
