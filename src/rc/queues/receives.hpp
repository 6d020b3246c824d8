// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The receive buffers of an interface. A buffer belongs to the HCA (posted), to us (free, reposted
// in batches) or to UCP, which may keep a message without copying it (held) as long as enough
// buffers remain for the peers. The HCA decides which queues they are posted to.
#pragma once

#include "verbs/handles.hpp"

extern "C" {
#include <uct/api/uct.h>
}

#include <cstddef>
#include <cstdint>

namespace gdr::rc {

class Receives;
struct OwnReceiveQueue;

// One receive buffer. UCP sees, from lower to higher addresses: a pointer to recv_desc, headroom,
// data. It is one cache line, because with many buffers each access may be a cache miss.
struct alignas(64) Receive {
    uct_recv_desc_t recv_desc; // first: UCP returns it to release the buffer
    union {
        Receives* owner;        // to which it is released
        OwnReceiveQueue* queue; // to which it is always posted
    };
    ibv_recv_wr wr;
    ibv_sge sge;

    std::byte* data() const { return reinterpret_cast<std::byte*>(sge.addr); }

    // The work request's id is its address, because free buffers are linked by it.
    uint64_t id() const { return reinterpret_cast<uintptr_t>(&wr); }
    static Receive* of(uint64_t wr_id);
};
inline Receive* Receive::of(uint64_t wr_id)
{
    return reinterpret_cast<Receive*>(wr_id - offsetof(Receive, wr));
}
static_assert(sizeof(Receive) == 64);

// The layout of a buffer: segment_size bytes of data behind headroom bytes, aligned to alignment at
// align_offset bytes from the start of the data.
class ReceiveLayout {
  public:
    ReceiveLayout(size_t segment_size, size_t headroom, size_t alignment, size_t align_offset);

    size_t stride() const { return stride_; } // bytes of a buffer
    void place(Receive& receive, std::byte* buffer, uint32_t lkey) const;
    void let_keep(Receive& receive) const; // allows UCP to keep it; touches the buffer

  private:
    uint32_t segment_size_;
    size_t headroom_;
    size_t offset_; // of the data
    size_t stride_;
};

// The side of a connection: the active side, an endpoint, receives window grants, the passive side
// the peer's messages.
enum class Side { active, passive };

// The receive queues of an interface: a shared one, or one for each queue pair.
class ReceiveQueues {
  public:
    virtual ~ReceiveQueues() = default;

    // For all queue pairs; NULL: each has its own.
    virtual ibv_srq* srq() const { return nullptr; }

    // Any thread: attributes for creating a queue pair, and its receives, to be posted before it is
    // connected. Throws verbs::Error.
    virtual void ask_for(ibv_qp_cap&, Side) const {}
    virtual void supply(ibv_qp*, Side) {}
    // Another passive side cannot be supplied.
    virtual bool full() const { return false; }

    // The calls below are for the interface's thread.

    // Posts a list of receives; returns those that were refused.
    virtual ibv_recv_wr* post(ibv_recv_wr* list) = 0;

    // Peers may fill so many at once.
    virtual void grow(size_t) {}

    // A receive completed without a message. Returns the queue pair if this shows that its last
    // receive has come back; else NULL.
    virtual ibv_qp* take_unfilled(const ibv_wc& wc) = 0;

    // The queue pair is about to be destroyed.
    virtual void forget(ibv_qp*) {}
};

// Worker thread only.
class Receives {
  public:
    // The queues that receives are posted to, at least batch at a time; whether UCP may keep any.
    void open(ReceiveQueues& queues, unsigned batch, bool may_be_kept);

    // Adds free receives and posts them.
    void add(Receive* receives, unsigned count);

    // UCT_CB_PARAM_FLAG_DESC while UCP may keep buffers, else 0: it then copies.
    unsigned keep_flag() const { return keep_flag_; }

    // The message is consumed. Posts the free receives if that is worth a call.
    void put(Receive* receive)
    {
        if (add_free(receive)) [[unlikely]] {
            post_free();
        }
    }

    // UCP has kept it and will release it through recv_desc.
    void hold();

    [[gnu::cold]] void post_free();

  private:
    static void release(uct_recv_desc_t* self, void* desc);
    bool add_free(Receive* receive) // false: more may become free
    {
        receive->wr.next = free_;
        free_ = &receive->wr;
        return --more_free_ < 0;
    }

    ReceiveQueues* queues_ = nullptr;
    ibv_recv_wr* free_ = nullptr; // linked as verbs posts it
    int more_free_ = 0;           // how many more may become free before they are posted
    int batch_ = 1;
    unsigned length_ = 0; // all that were added
    unsigned held_ = 0;
    unsigned keep_flag_ = 0;
};

} // namespace gdr::rc
