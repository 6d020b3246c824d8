// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The receive buffers of an interface. A buffer belongs to the HCA (posted), to us (free, posted
// again in batches) or to UCP, which may keep a message without copying it (held) as long as enough
// buffers remain for the peers. Which queues they are posted to depends on the HCA.
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
// data. A cache line: with many of them each one that is touched may be a miss.
struct alignas(64) Receive {
    uct_recv_desc_t recv_desc; // first: UCP hands it back to release it
    union {
        Receives* owner;        // to release it to
        OwnReceiveQueue* queue; // that it is always posted to
    };
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

// How a buffer is laid out: data of segment_size bytes behind headroom bytes, aligned to alignment
// at align_offset bytes from its start.
class ReceiveLayout {
  public:
    ReceiveLayout(size_t segment_size, size_t headroom, size_t alignment, size_t align_offset);

    size_t stride() const { return stride_; } // bytes of a buffer
    void place(Receive& receive, std::byte* buffer, uint32_t lkey) const;
    void let_keep(Receive& receive) const; // UCP may; touches the buffer

  private:
    uint32_t segment_size_;
    size_t headroom_;
    size_t offset_; // of the data
    size_t stride_;
};

// Who receives by a queue pair: an endpoint its window's grants, an acceptor its peer's messages.
enum class Receiver { endpoint, acceptor };

// The receive queues of an interface: a shared one, or one of each queue pair.
class ReceiveQueues {
  public:
    virtual ~ReceiveQueues() = default;

    // Of all queue pairs; NULL: each has its own.
    virtual ibv_srq* srq() const { return nullptr; }

    // For any thread: what a queue pair is to be made with, and its receives, before it is
    // connected. Throws verbs::Error.
    virtual void ask_for(ibv_qp_cap&, Receiver) const {}
    virtual void supply(ibv_qp*, Receiver) {}
    // Another acceptor cannot be supplied.
    virtual bool full() const { return false; }

    // The rest is for the interface's thread.

    // Posts a list of receives; what is returned was refused.
    virtual ibv_recv_wr* post(ibv_recv_wr* list) = 0;

    // Peers may fill so many at once.
    virtual void grow(size_t) {}

    // A receive completed without a message. The queue pair whose last one it was, if that is known
    // from it; else NULL.
    virtual ibv_qp* take_unfilled(const ibv_wc& wc) = 0;

    // The queue pair is about to be destroyed.
    virtual void forget(ibv_qp*) {}
};

// Worker thread only.
class Receives {
  public:
    // Where they are posted, so many at a time at least; whether UCP may keep any.
    void open(ReceiveQueues& queues, unsigned batch, bool may_be_kept);

    // They are free, and posted.
    void add(Receive* receives, unsigned count);

    // UCT_CB_PARAM_FLAG_DESC while UCP may keep buffers, else 0: it then copies.
    unsigned keep_flag() const { return keep_flag_; }

    // The message is consumed. Posts what is free, when that is worth a call.
    void put(Receive* receive)
    {
        if (add_free(receive)) [[unlikely]] {
            post_free();
        }
    }

    // UCP kept it and will release it through recv_desc.
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
    ibv_recv_wr* free_ = nullptr; // a list as the HCA's library takes it
    int more_free_ = 0;           // may become free before they are posted
    int batch_ = 1;
    unsigned length_ = 0; // all that were added
    unsigned held_ = 0;
    unsigned keep_flag_ = 0;
};

} // namespace gdr::rc
