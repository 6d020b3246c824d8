// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// An endpoint: a queue pair to a peer's interface, connected at its first use.
#pragma once

#include "abi/completion.hpp"
#include "abi/iface.hpp"
#include "rc/connect/address.hpp"
#include "rc/iface.hpp"
#include "rc/pending_queue.hpp"
#include "rc/reads_before_writes.hpp"
#include "rc/send_queue.hpp"
#include "rc/work_requests.hpp"
#include "verbs/handles.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace gdr::rc {

struct ReadModifyWrite;

// Most bytes in an endpoint's buffers before one of them is signalled. Returned buffers are used
// next, and these few stay in the CPU's own caches.
inline constexpr size_t kMostBuffered = 32 << 10;

// Flushes of an endpoint that wait at the same time without an allocation.
inline constexpr size_t kUsualFlushes = 8;

// Which work request is posted: one that the caller has taken from the budget, or one from the
// budget or the single one.
enum class Post { budgeted, any };

struct Endpoint : abi::Ep {
    Endpoint(Iface& iface, const DeviceAddress& device, const IfaceAddress& address);
    ~Endpoint();

    Iface& iface() const
    {
        return *static_cast<Iface*>(static_cast<abi::BaseIface*>(static_cast<void*>(super.iface)));
    }

    // ---- data path state, first
    ibv_qp* qp = nullptr;     // NULL: nobody has used the endpoint
    uint64_t last_wr_id;      // of the last posted work request
    int budget = 0;           // plain work requests, also messages, that may be posted unchecked
    unsigned window;          // active messages that may be sent
    int single = 0;           // 1: one special work request may be posted; the budget is 0
    unsigned extra_flags = 0; // IBV_SEND_* of the single one
    uint32_t extra_immediate = 0; // of the single one, if it is a message
    SequenceNumber completed = 0; // last work request known complete
    SequenceNumber signalled = 0; // last signalled work request
    size_t buffered = 0;          // bytes in buffers since one of them was signalled
    SendOps ops;
    unsigned to_look;        // work requests, not counting the budget, until one is signalled
    bool fence_next = false; // the next work request must wait for earlier reads
    // 0: a completion only has to finish its operations.
    static constexpr uint8_t kCompleting = 1; // their callbacks are being called
    static constexpr uint8_t kAttention = 2;  // something rare must be done too, or was
    uint8_t attention = 0;

    // ---- the rest
    uint64_t id;
    unsigned half_window_mask;
    unsigned read_modify_writes = 0; // emulated atomics under way
    SequenceNumber flushed = 0;      // last work request before the last flush, or its marker
    unsigned waiting_read_modify_writes = 0; // of these, those without a work request of their own
    unsigned awaited_read_modify_writes = 0; // of these, those that somebody waits for
    unsigned flushes = 0; // flushes so far; tells which atomics a flush came after
    bool fenced =
        false;         // emulated atomics from before a fence are under way: nothing else may start
    bool held = false; // new operations wait: like holds(), but false during a retry
    bool connected = false;
    bool needs_several =
        false;            // the last refused operation needs more than one work request or buffer
    bool closing = false; // destroyed by the user; deleted when a completion finds it done
    ucs_status_t failure = UCS_OK;
    struct {                  // the last short operation that was refused for its memory
        const void* payload;  // in GPU memory; NULL: none
        SequenceNumber after; // the last work request at that time
        bool insisted;        // UCP retried it although nothing else is lacking
    } refused_short{};
    struct {                    // state at the last check while the port was down
        SequenceNumber posted;  // last work request
        SequenceNumber awaited; // last signalled one
    } seen{};
    PendingQueue pending;
    bool in_pending_list = false;
    Endpoint* pending_before = nullptr; // in the interface's list
    Endpoint* pending_after = nullptr;
    struct FlushWaiter {
        SequenceNumber number; // last work request posted before the flush
        bool reached;          // it has completed
        unsigned atomics;      // emulated atomics from before the flush that are still under way
        unsigned flush;        // its own number
        uct_completion_t* completion;
    };
    std::vector<FlushWaiter> flush_waiters;
    LastReads last_reads{};
    verbs::QueuePair owned_qp;
    DeviceAddress peer_device;
    IfaceAddress peer;

    // Our port and the peer's, for messages.
    std::string ports() const;

    // The last posted work request.
    SequenceNumber posted() const { return number_of(last_wr_id); }

    bool has_outstanding() const { return posted() != completed; }

    // Work requests since the last signalled one.
    unsigned unsignalled()
    {
        settle();
        return static_cast<SequenceNumber>(posted() - signalled);
    }

    // New operations must wait for pending requests, or for what came before a fence.
    bool holds() const { return fenced || !pending.empty(); }
    void hold()
    {
        settle();
        held = true;
    }
    void let_go() { held = holds(); }

    // Work requests that may be posted, including the budget.
    int credits() const
    {
        const unsigned taken =
            static_cast<SequenceNumber>(posted() - completed) + waiting_read_modify_writes;
        return connected && !held && failure == UCS_OK
                   ? static_cast<int>(iface().limits.queue_length() - taken)
                   : 0;
    }

    // Whether an operation can be posted now.
    bool can_post() const
    {
        return budget > 0 || single > 0 || (credits() > 0 && iface().credits.available() > 0);
    }

    // The same, and makes sure that the operation is within the budget or is the single one.
    bool ready() { return budget > 0 || replenish(); }

    // Refills the budget, which must be 0, with the plain work requests that come before the next
    // special one. Special work requests are single: those that are signalled for their number, are
    // fenced, request a window, or cannot be a message. False: nothing can be posted.
    bool replenish();

    // Takes one work request from the budget, if there is one. Check and count are one instruction.
    [[gnu::always_inline]] bool take_budgeted()
    {
        if (--budget < 0) [[unlikely]] {
            budget = 0;
            return false;
        }
        return true;
    }

    // Returns the rest of the budget, so that all counts are of posted work requests.
    void settle();

    // Whether the refused operation lacks no resources, but is a short operation on GPU memory that
    // UCP takes for host memory. The next refusal is final.
    bool insists_on_short()
    {
        if (refused_short.payload == nullptr || refused_short.after != posted()) {
            return false;
        }
        return !std::exchange(refused_short.insisted, true);
    }

    // Why nothing can be posted: UCS_ERR_NO_RESOURCE, or the error that the endpoint failed with.
    ucs_status_t unavailable()
    {
        use();
        return failure != UCS_OK ? failure : UCS_ERR_NO_RESOURCE;
    }

    // The first user of the connection creates it.
    void use()
    {
        if (qp == nullptr && failure == UCS_OK) {
            connect();
        }
    }
    void connect(); // creates the queue pair, and asks the peer for its own

    // Numbers and posts one work request; UCS_OK or the status of the failure. The caller has
    // checked ready(), or taken a work request from the budget. wr.next is NULL.
    template <Post which = Post::any>
    ucs_status_t post(ibv_send_wr& wr, unsigned flags)
    {
        int& left = take<which>();
        if (int error = try_post<which>(iface(), next_wr_id(), wr, flags); error != 0)
            [[unlikely]] {
            return post_refused(error, left);
        }
        return UCS_OK;
    }

    // The same, with an operation in ops.next() that ends when the work request completes; its
    // wr_id is next_wr_id(). The caller fills in the operation before it calls this: the compiler
    // then need not save the operation's values across the call that posts.
    template <Post which = Post::any, ucs_status_t posted_status = UCS_OK>
    [[gnu::always_inline]] ucs_status_t post_with_op(Iface& interface, uint64_t wr_id,
                                                     ibv_send_wr& wr, unsigned flags)
    {
        int& left = take<which>();
        ops.push();
        if (int error = try_post<which>(interface, wr_id, wr, flags); error != 0) [[unlikely]] {
            return op_refused(error, left);
        }
        return posted_status;
    }
    uint64_t next_wr_id() const { return last_wr_id + kNextNumber; }

    // Posts a signalled work request outside the budget. The caller has checked can_post(), or
    // continues an operation of its own whose work request has just completed, or has closed the
    // queue.
    ucs_status_t post_signalled(ibv_send_wr& wr);

    // The operation, ops.next(), ends when the last posted work request completes.
    void remember(SendOp& op)
    {
        op.wr_id = last_wr_id;
        ops.push();
    }

    // The completion of the next work request returns this buffer.
    void set_buffer(uint64_t wr_id, std::byte* buffer)
    {
        SendOp& op = ops.next();
        op.kind = SendOp::Kind::buffer;
        op.buffer = buffer;
        op.wr_id = wr_id;
    }

    [[gnu::always_inline]] void finish(const SendOp& op, ucs_status_t status)
    {
        if (op.kind == SendOp::Kind::other) {
            return op.handler(*this, op, status);
        }
        if (op.kind == SendOp::Kind::buffer) {
            return iface().buffers->put(op.buffer);
        }
        if (status == UCS_OK) {
            op.unpack(op.result, op.buffer, op.length);
        }
        iface().buffers->put(op.buffer);
        abi::complete(op.completion, status);
    }

    // Work requests posted from now on wait for those posted until now.
    void fence();

    // The next work request waits for earlier reads and atomics.
    void wait_for_reads()
    {
        settle();
        fence_next = true;
        to_look = 1;
    }

    // An emulated atomic has ended.
    void finish_read_modify_write(const ReadModifyWrite& rmw);

    // left: budget or single, from which the work request was taken.
    [[gnu::cold]] ucs_status_t post_refused(int error, int& left);

    // The same for a work request with an operation: drops the operation and returns its buffer.
    [[gnu::cold]] ucs_status_t op_refused(int error, int& left);

    // The same for a chain, from this number on. Fails the endpoint.
    void chain_refused(int error, SequenceNumber first);
    ucs_status_t post_flush_marker();        // a signalled work request that writes nothing
    void expect_flush_after(unsigned count); // count: of work requests; 0: unknown

    void on_connected();
    void
    close_queue(ucs_status_t status); // nothing more can be posted; outstanding work is flushed
    void fail(ucs_status_t status);   // close_queue(), and progress reports the failure to the user
    void abandon(ucs_status_t status); // fail(), and outstanding work does not wait for the HCA
    void purge(ucs_status_t status);   // completes outstanding work; the queue pair is gone
    void notify_flush_waiters(ucs_status_t status);

    // Signals the last work requests of a destroyed or failed endpoint as soon as possible.
    void signal_last();

    // Callbacks of its operations are being called.
    bool completing() const { return (attention & kCompleting) != 0; }

    // The endpoint has failed, is closing, or has a new flush waiter.
    void needs_attention() { attention |= kAttention; }
    void update_attention()
    {
        attention = failure != UCS_OK || closing || !flush_waiters.empty() ? kAttention : 0;
    }

  private:
    template <Post which>
    int& take()
    {
        if constexpr (which == Post::budgeted) {
            return budget; // taken already
        } else {
            int& left = budget > 0 ? budget : single;
            --left;
            return left;
        }
    }

    // Returns the errno.
    template <Post which>
    [[gnu::always_inline]] int try_post(Iface& interface, uint64_t wr_id, ibv_send_wr& wr,
                                        unsigned flags)
    {
        last_wr_id = wr_id;
        wr.wr_id = wr_id;
        wr.send_flags = which == Post::budgeted ? flags : flags | extra_flags;
        if (flags & IBV_SEND_SIGNALED) {
            signalled = posted();
        }
        return interface.poster.post(qp, wr);
    }
};

inline Endpoint& endpoint(uct_ep_h ep)
{
    return *static_cast<Endpoint*>(reinterpret_cast<abi::Ep*>(ep));
}

// An empty RDMA WRITE: touches no memory, needs no key, completes after everything before it.
inline ucs_status_t Endpoint::post_flush_marker()
{
    ibv_send_wr wr;
    wr.next = nullptr;
    wr.sg_list = nullptr;
    wr.num_sge = 0;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = 0;
    wr.wr.rdma.rkey = 0;
    return post_signalled(wr);
}

// Programs tend to flush after as many operations as the last time: a put, or the puts of an epoch.
// So the last of these is signalled, and the flush needs no marker.
inline void Endpoint::expect_flush_after(unsigned count)
{
    settle();
    flushed = posted();
    if (count > 0) {
        to_look = std::min(count, to_look);
    }
}

// RC keeps writes and sends in order. Only reads and atomics before the fence must be waited for:
// the HCA does so, and we do if an atomic takes several work requests.
inline void Endpoint::fence()
{
    wait_for_reads();
    if (read_modify_writes > 0) {
        fenced = true;
        hold();
    }
}

} // namespace gdr::rc
