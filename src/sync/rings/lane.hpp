// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The border between the rings, from which kernels initiate operations, and what carries them to a
// peer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <ucs/type/status.h>

namespace gdr::sync {

struct Memory;
struct RemoteMemory;

// One operation that a kernel initiated. Its memories are in use (memory.hpp), and its bounds were
// checked. Words that are set, added or fetched are of 64 bits and aligned.
struct Transfer {
    enum class Kind : uint8_t {
        put,
        put_signal_set, // the signal's word is set to the value after the data has arrived
        put_signal_add, // the value is added to it
        put_value,      // `length` bytes, 1 to 8, of the value
        get,
        add,       // the value is added to the remote word
        fetch_add, // and what that was before comes to the local word
    };
    Kind kind;
    uint32_t length;
    const Memory* local; // put, put_signal, get, fetch_add
    uint64_t offset;
    const RemoteMemory* remote;
    uint64_t remote_offset;
    const RemoteMemory* signal; // put_signal; of the same peer
    uint64_t signal_offset;
    uint64_t value;
    uint64_t ticket;
};

class Retired {
  public:
    virtual void retired(uint64_t ticket, ucs_status_t status) = 0;

  protected:
    ~Retired() = default;
};

// Carries the transfers of one channel to one peer, in their order. One thread at a time.
class Lane {
  public:
    virtual ~Lane() = default;

    // Returns false if there is no room now; then nothing was done, and poll() makes room.
    virtual bool post(const Transfer& transfer) = 0;

    // What was posted goes out.
    virtual void submit() = 0;

    // Tells, in their order, of the transfers that are complete: what a get or a fetch_add has read
    // is there, but a GPU may need a flush to see it. Returns how many there were. The memories may
    // be given back after it has returned, not before: then nobody may keep the lane.
    virtual unsigned poll(Retired& retired) = 0;

    // Transfers that are not complete, which the ring counts.
    unsigned under_way = 0;
};

// The lanes to one peer, a lane for each channel. There are none until it is connected.
class Lanes {
  public:
    // Any thread. nullptr: the peer is not connected, or has no such channel.
    Lane* of(unsigned channel) const
    {
        return ready_.load(std::memory_order_acquire) && channel < lanes_.size()
                   ? lanes_[channel].get()
                   : nullptr;
    }

    // Once.
    void set(std::vector<std::unique_ptr<Lane>> lanes)
    {
        lanes_ = std::move(lanes);
        ready_.store(true, std::memory_order_release);
    }

  private:
    std::vector<std::unique_ptr<Lane>> lanes_;
    std::atomic<bool> ready_{false};
};

} // namespace gdr::sync
