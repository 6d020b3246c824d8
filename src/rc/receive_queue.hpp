// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The shared receive queue of an interface and its buffers. A buffer belongs to the HCA (posted),
// to us (free, posted again in batches) or to UCP, which may keep a message without copying it
// (held) as long as enough buffers remain for the peers. There are as many as the peers may fill at
// once, and more while UCP keeps many: the HCA fills all in turn, and fewer stay in the caches.
#pragma once

#include "rc/completion_room.hpp"
#include "rc/registered_memory.hpp"

extern "C" {
#include <uct/api/uct.h>
}

#include <cstddef>
#include <memory>
#include <vector>

namespace gdr::rc {

class ReceiveQueue;

// One receive buffer. UCP sees, from lower to higher addresses: a pointer to recv_desc, headroom,
// data. A cache line: with many of them each one that is touched may be a miss.
struct alignas(64) Receive {
    uct_recv_desc_t recv_desc; // first: UCP hands it back to release it
    ReceiveQueue* queue;
    ibv_recv_wr wr;
    ibv_sge sge;

    std::byte* data() const { return reinterpret_cast<std::byte*>(sge.addr); }

    // The work request's id is its address: it is what a buffer that is put back is linked by.
    uint64_t id() const { return reinterpret_cast<uintptr_t>(&wr); }
    static Receive* of(uint64_t wr_id);
};
inline Receive* Receive::of(uint64_t wr_id)
{
    return reinterpret_cast<Receive*>(wr_id - offsetof(Receive, wr));
}
static_assert(sizeof(Receive) == 64);

// Worker thread only.
class ReceiveQueue {
    static constexpr int kBatch = 32;

  public:
    static constexpr unsigned kShortest = 4 * unsigned{kBatch};

    // length buffers, and most at most, of segment_size bytes behind headroom bytes; data is
    // aligned to alignment at align_offset bytes from its start. Halves length until the buffers
    // can be registered; there are no more then. Throws verbs::Error.
    ReceiveQueue(ibv_pd* pd, CompletionRoom& completions, unsigned length, unsigned most,
                 size_t segment_size, size_t headroom, size_t alignment, size_t align_offset);

    ibv_srq* srq() const { return srq_.get(); }

    // Doubles the buffers until there are so many, or the most. What cannot be registered, or has
    // no room in the completion queue, is never tried again; it is told once.
    void grow(size_t wanted);

    // UCT_CB_PARAM_FLAG_DESC while UCP may keep buffers, else 0: it then copies.
    unsigned keep_flag() const { return keep_flag_; }

    static void* descriptor(const Receive& receive, size_t headroom)
    {
        return receive.data() - headroom;
    }

    // The message is consumed. Posts what is free, when that is worth a call.
    void put(Receive* receive)
    {
        if (add_free(receive)) [[unlikely]] {
            post_free();
        }
    }

    // UCP kept it and will release it through recv_desc.
    void hold();

  private:
    static void release(uct_recv_desc_t* self, void* desc);
    void add(RegisteredMemory memory, unsigned count);
    bool add_free(Receive* receive) // false: more may become free
    {
        receive->wr.next = free_;
        free_ = &receive->wr;
        return --more_free_ < 0;
    }
    [[gnu::cold]] void post_free();

    ibv_pd* const pd_;
    CompletionRoom& completions_; // has an entry for each buffer
    const uint32_t segment_size_;
    const size_t headroom_;
    const size_t offset_; // of the data in a buffer
    const size_t stride_;
    unsigned length_ = 0;
    unsigned most_;
    struct Part {
        RegisteredMemory memory;
        std::unique_ptr<Receive[]> receives;
    };
    std::vector<Part> parts_;
    verbs::SharedReceiveQueue srq_;
    ibv_recv_wr* free_ = nullptr; // a list as the HCA's library takes it
    int more_free_ = kBatch - 1;  // may become free before they are posted
    unsigned held_ = 0;
    unsigned keep_flag_ = UCT_CB_PARAM_FLAG_DESC;
};

} // namespace gdr::rc
