// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// One allocation of another process, opened for each GPU of this one that copies from or to it.
#pragma once

#include "cuda/context.hpp"
#include "ipc/pause.hpp"
#include "ipc/remote_key.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>

namespace gdr::ipc {

// Any thread. The storage of a region whose memory was closed serves others later, and is never
// returned to the system: a pointer that a thread remembers can be tried whatever became of it.
class Region {
  public:
    // Closes the memory and keeps the storage.
    struct End {
        void operator()(Region* region) const;
    };
    using Owned = std::unique_ptr<Region, End>;

    // With one use.
    static Owned make(const cuda::Driver& driver, const RemoteKey& key);

    Region(const cuda::Driver& driver, int devices);
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

    const RemoteKey& key() const { return key_; }

    // Where a GPU reaches the byte at an address of the owner; 0 when it does not open, of which a
    // line in the log tells once. context_id: of the GPU's primary context (cuda::context_id()),
    // with which what was open has gone after a device reset. Opens it where it is not; no call of
    // the driver and no lock where it is, or is known not to.
    CUdeviceptr reach(CUdevice device, unsigned long long context_id, uint64_t address)
    {
        const Opening& opening = openings_[device];
        const bool same = opening.context_id.load(std::memory_order_acquire) == context_id;
        CUdeviceptr base = same ? opening.base.load(std::memory_order_acquire) : kNotOpen;
        if (base == kNotOpen) [[unlikely]]
            base = open(device);
        return base == kNotOpen || base == kRefused ? 0 : base + (address - key_.base);
    }

    bool holds(uint64_t address, size_t length) const
    {
        return address >= key_.base && length <= key_.length &&
               address - key_.base <= key_.length - length;
    }

    // A GPU for which it is open; -1: none.
    CUdevice first_device() const;

    // Opens it for a GPU where it is not. Whether it is open.
    bool open_for(CUdevice device);

    // Whether that failed for memory that was there before and is still open in this process: once
    // that is closed it can be tried again.
    bool collides() const { return collides_; }

    // Tries it again, but not for each message.
    void put_off();

    // What the key says of the allocation, and another: whether both are of the same one.
    bool is(const RemoteKey& other) const;

    // Uses are counted. Without any it is idle, and then so many bytes are that were not, or the
    // other way round: none of what was never open. Memory is mapped in pages of 2 MiB: less of it
    // is not returned to its owner either.
    bool try_use(size_t* no_longer_idle);           // false: it is closed, or about to be
    size_t end_use(bool* last);                     // the bytes that are idle now
    bool is_idle() const { return uses_ == kIdle; } // and its bytes

    // Whether nobody uses it; then nobody will.
    bool claim(size_t* no_longer_idle);

    // Set where the owner has other memory at the same addresses.
    std::atomic<bool> stale{false};

    // Set where the last endpoint to the owner has gone while it was used.
    std::atomic<bool> left_over{false};

    // When it was last given back, in the count of such events.
    std::atomic<uint64_t> idle_since{0};

  private:
    static constexpr CUdeviceptr kNotOpen = 0;
    static constexpr CUdeviceptr kRefused = 1; // no mapping begins there
    static constexpr uint32_t kClaimed = UINT32_MAX;
    static constexpr uint32_t kIdle = 1u << 31; // no uses, and bytes that are idle

    struct Opening {
        std::atomic<CUdeviceptr> base{kNotOpen};
        std::atomic<unsigned long long> context_id{0}; // for which this is so
        bool told = false;                             // that it does not open
    };

    size_t bytes() const { return std::max<size_t>(key_.length, size_t{2} << 20); }
    bool is_to_wait(); // with what this message asks for
    CUdeviceptr open(CUdevice device);
    void tell(CUdevice device, const std::exception& error);
    void close();

    const cuda::Driver& driver_;
    const int devices_;
    RemoteKey key_;
    std::atomic<uint32_t> uses_{kClaimed};
    std::unique_ptr<Opening[]> openings_; // by GPU
    std::mutex opening_;
    std::atomic<bool> collides_{false};
    std::atomic<bool> opened_{false}; // at any time
    Pause pause_;                     // between two tries while something is in the way
};

} // namespace gdr::ipc
