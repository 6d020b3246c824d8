// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// An endpoint: a queue pair to a peer's interface, connected when it is first used, and the
// operations UCT asks of it. Declared here, defined by kind of operation in am.cpp, rma.cpp,
// atomic.cpp, flush.cpp and pending.cpp.
#pragma once

#include "abi/completion.hpp"
#include "abi/iface.hpp"
#include "rc/address.hpp"
#include "rc/iface.hpp"
#include "rc/relaxed_writes.hpp"
#include "rc/send_queue.hpp"
#include "verbs/handles.hpp"

#include <utility>
#include <vector>

namespace gdr::rc {

// The requests that wait for an endpoint's resources, in order, and the fences between them. Linked
// through uct_pending_req_t::priv.
class PendingQueue {
  public:
    bool empty() const { return head_ == nullptr; }
    void push_back(uct_pending_req_t* request);
    void push_front(uct_pending_req_t* request);
    uct_pending_req_t* pop_front();

    // A fence came when the request was the last one.
    void fence() { link(tail_).fence_follows = true; }
    static bool fence_follows(uct_pending_req_t* request) { return link(request).fence_follows; }

  private:
    struct Link {
        uct_pending_req_t* next;
        bool fence_follows;
    };
    static_assert(sizeof(Link) <= UCT_PENDING_REQ_PRIV_LEN);
    static Link& link(uct_pending_req_t* request)
    {
        return *reinterpret_cast<Link*>(request->priv);
    }
    uct_pending_req_t* head_ = nullptr;
    uct_pending_req_t* tail_ = nullptr;
};

struct ReadModifyWrite;

// Of the payload in an endpoint's buffers that nobody has asked back: the buffers that come back
// are used next, and so few enough that they stay in the processor's own caches.
inline constexpr size_t kMostBuffered = 32 << 10;

// Which work request it may be: one of the budget, where the caller knows that there is one, or the
// single one, too.
enum class Post { alike, any };

struct Endpoint : abi::Ep {
    Endpoint(Iface& iface, const DeviceAddress& device, const IfaceAddress& address);
    ~Endpoint();

    Iface& iface() const
    {
        return *static_cast<Iface*>(static_cast<abi::BaseIface*>(static_cast<void*>(super.iface)));
    }

    // ---- the data path's state, first
    ibv_qp* qp = nullptr;     // NULL: nobody has used the endpoint
    uint64_t last_wr_id;      // of the last work request posted
    int budget = 0;           // work requests that may be posted at once, all alike, and messages,
                              // too: replenish() has looked
    unsigned window;          // active messages that may be sent
    int single = 0;           // 1: one work request may be posted that differs; the budget is 0
    unsigned extra_flags = 0; // of it, IBV_SEND_*
    uint32_t extra_immediate = 0; // of it, if it is a message
    SequenceNumber completed = 0; // last work request known complete
    SequenceNumber signalled = 0; // last work request whose completion was asked for
    size_t buffered = 0;          // bytes in buffers since one of these was last signalled
    SendOps ops;
    unsigned to_look;        // work requests besides the budget until one is to be signalled
    bool fence_next = false; // the next work request comes after a fence
    // 0: nothing is to be done at a completion but its operations.
    static constexpr uint8_t kCompleting = 1; // these are being done
    static constexpr uint8_t kAttention = 2;  // something rare is, too, or was
    uint8_t attention = 0;

    // ---- the rest
    uint64_t id;
    unsigned half_window_mask;
    unsigned read_modify_writes = 0;         // atomics that are emulated, under way
    SequenceNumber flushed = 0;              // last work request before the last flush, its marker
    unsigned waiting_read_modify_writes = 0; // of these, without a work request of their own
    unsigned awaited_read_modify_writes = 0; // of these, whose end or result somebody waits for
    unsigned flushes = 0; // ever waited for: tells which atomics a flush came after
    bool fenced =
        false;         // emulated atomics from before a fence are under way: nothing else may start
    bool held = false; // new operations wait: as holds(), but while those that pend are tried again
    bool connected = false;
    bool needs_several =
        false;            // what was refused last takes more work requests or buffers than one
    bool closing = false; // destroyed by the user; goes once a completion finds it done
    ucs_status_t failure = UCS_OK;
    struct {                  // the last short operation that was refused for its memory
        const void* payload;  // of the GPU; NULL: none was
        SequenceNumber after; // the last work request then
        bool insisted;        // UCP came back with it, though nothing else is lacking
    } refused_short{};
    struct {                    // at the last look while the port was down
        SequenceNumber posted;  // last work request
        SequenceNumber awaited; // last one whose completion was asked for
    } seen{};
    PendingQueue pending;
    bool in_pending_list = false;
    Endpoint* pending_before = nullptr; // in the interface's list
    Endpoint* pending_after = nullptr;
    struct FlushWaiter {
        SequenceNumber number; // last work request posted before
        bool reached;          // it has completed
        unsigned atomics;      // emulated ones from before, still under way
        unsigned flush;        // its own number
        uct_completion_t* completion;
    };
    std::vector<FlushWaiter> flush_waiters;
    LastReads last_reads{};
    verbs::QueuePair owned_qp;
    DeviceAddress peer_device;
    IfaceAddress peer;

    // The last work request posted.
    SequenceNumber posted() const { return number_of(last_wr_id); }

    bool has_outstanding() const { return posted() != completed; }

    // Work requests since the last signalled one.
    unsigned unsignalled()
    {
        settle();
        return static_cast<SequenceNumber>(posted() - signalled);
    }

    // New operations wait: for the requests that pend, or for what came before a fence.
    bool holds() const { return fenced || !pending.empty(); }
    void hold()
    {
        settle();
        held = true;
    }
    void let_go() { held = holds(); }

    // Work requests that may be posted, the budget included.
    int credits() const
    {
        const unsigned taken =
            static_cast<SequenceNumber>(posted() - completed) + waiting_read_modify_writes;
        return connected && !held && failure == UCS_OK
                   ? static_cast<int>(iface().tx_queue_length - taken)
                   : 0;
    }

    // Whether an operation can be posted now.
    bool can_post() const
    {
        return budget > 0 || single > 0 || (credits() > 0 && iface().tx_available > 0);
    }

    // The same; the operation then is within the budget, or the single one.
    bool ready() { return budget > 0 || replenish(); }

    // A budget of as many work requests as are alike: before one that is signalled for its number,
    // fenced, asks for a window, or cannot be a message, that is; such a one is single. False: none
    // can be posted. The budget is 0 before.
    bool replenish();

    // Takes one work request of the budget, if there is one: the look and the count are one
    // instruction.
    [[gnu::always_inline]] bool take_alike()
    {
        if (--budget < 0) [[unlikely]] {
            budget = 0;
            return false;
        }
        return true;
    }

    // Takes the rest of the budget back, so that all counts are of what is posted.
    void settle();

    // Whether the request that is refused waits for nothing, but is a short operation of GPU
    // memory: UCP takes that for host memory, so the next time the refusal is final.
    bool insists_on_short()
    {
        if (refused_short.payload == nullptr || refused_short.after != posted()) {
            return false;
        }
        return !std::exchange(refused_short.insisted, true);
    }

    // Why not: UCS_ERR_NO_RESOURCE, or the error the endpoint failed with.
    ucs_status_t unavailable()
    {
        use();
        return failure != UCS_OK ? failure : UCS_ERR_NO_RESOURCE;
    }

    // Somebody needs the connection: the first who does has it made.
    void use()
    {
        if (qp == nullptr && failure == UCS_OK) {
            connect();
        }
    }
    void connect(); // makes the queue pair, and asks the peer for its partner

    // Numbers and posts one work request; UCS_OK or the status of the failure. The caller checked
    // ready(), or took one that is alike from the budget. wr.next is NULL.
    template <Post which = Post::any>
    ucs_status_t post(ibv_send_wr& wr, unsigned flags)
    {
        int& left = take_any<which>();
        if (int error = try_post<which>(iface(), next_wr_id(), wr, flags); error != 0)
            [[unlikely]] {
            return post_refused(error, left);
        }
        return UCS_OK;
    }

    // The same, with ops.next() to be done when it has completed, whose wr_id is next_wr_id(). It
    // is there before, so that nothing is kept over the call.
    template <Post which = Post::any, ucs_status_t posted_status = UCS_OK>
    [[gnu::always_inline]] ucs_status_t post_with_op(Iface& interface, uint64_t wr_id,
                                                     ibv_send_wr& wr, unsigned flags)
    {
        int& left = take_any<which>();
        ops.push();
        if (int error = try_post<which>(interface, wr_id, wr, flags); error != 0) [[unlikely]] {
            return op_refused(error, left);
        }
        return posted_status;
    }
    uint64_t next_wr_id() const { return last_wr_id + kNextNumber; }

    // Posts one that is signalled, outside the budget: the caller checked can_post(), continues an
    // operation of its own whose work request has just completed, or has closed the queue.
    ucs_status_t post_signalled(ibv_send_wr& wr);

    // The last work request posted leaves this to do, which is ops.next().
    void remember(SendOp& op)
    {
        op.wr_id = last_wr_id;
        ops.push();
    }

    // The work request posted next leaves a buffer that goes back.
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

    // What is posted from now on waits for what was posted until now.
    void fence();

    // What is posted next does for reads and atomics.
    void wait_for_reads()
    {
        settle();
        fence_next = true;
        to_look = 1;
    }

    // It has come to its end.
    void finish_read_modify_write(const ReadModifyWrite& rmw);

    // left: where it was taken from.
    [[gnu::cold]] ucs_status_t post_refused(int error, int& left);

    // What was noted of it is no more to be done; its buffer is back in its pool.
    [[gnu::cold]] ucs_status_t op_refused(int error, int& left);

    // So was what had been posted in a chain, from this number on. Fails the endpoint.
    void chain_refused(int error, SequenceNumber first);
    ucs_status_t post_flush_marker();        // a signalled work request that writes nothing
    void expect_flush_after(unsigned count); // work requests; 0: nothing is known

    void on_connected();
    void
    close_queue(ucs_status_t status);  // nothing more can be posted; what is outstanding is flushed
    void fail(ucs_status_t status);    // close_queue(), and the user is told from progress
    void abandon(ucs_status_t status); // fail(), and what is outstanding does not wait for the HCA
    void purge(ucs_status_t status);   // completes what is outstanding; the queue pair is gone
    void notify_flush_waiters(ucs_status_t status);

    // Callbacks of its operations are being called.
    bool completing() const { return (attention & kCompleting) != 0; }

    // It has failed, is closing, or has a waiter more.
    void needs_attention() { attention |= kAttention; }
    void update_attention()
    {
        attention = failure != UCS_OK || closing || !flush_waiters.empty() ? kAttention : 0;
    }

  private:
    template <Post which>
    int& take_any()
    {
        if constexpr (which == Post::alike) {
            return budget; // taken already
        } else {
            int& left = budget > 0 ? budget : single;
            --left;
            return left;
        }
    }

    // The errno.
    template <Post which>
    [[gnu::always_inline]] int try_post(Iface& interface, uint64_t wr_id, ibv_send_wr& wr,
                                        unsigned flags)
    {
        last_wr_id = wr_id;
        wr.wr_id = wr_id;
        wr.send_flags = which == Post::alike ? flags : flags | extra_flags;
        if (flags & IBV_SEND_SIGNALED) {
            signalled = posted();
        }
        return interface.post_send(qp, &wr, &interface.refused);
    }
};

inline Endpoint& endpoint(uct_ep_h ep)
{
    return *static_cast<Endpoint*>(reinterpret_cast<abi::Ep*>(ep));
}

// ---- UCT's operations
ucs_status_t ep_am_short(uct_ep_h ep, uint8_t id, uint64_t header, const void* payload,
                         unsigned length);
ucs_status_t ep_am_short_iov(uct_ep_h ep, uint8_t id, const uct_iov_t* iov, size_t iovcnt);
ssize_t ep_am_bcopy(uct_ep_h ep, uint8_t id, uct_pack_callback_t pack, void* arg, unsigned flags);
ucs_status_t ep_am_zcopy(uct_ep_h ep, uint8_t id, const void* header, unsigned header_length,
                         const uct_iov_t* iov, size_t iovcnt, unsigned flags,
                         uct_completion_t* comp);

ucs_status_t ep_put_short(uct_ep_h ep, const void* buffer, unsigned length, uint64_t remote_addr,
                          uct_rkey_t rkey);
ssize_t ep_put_bcopy(uct_ep_h ep, uct_pack_callback_t pack, void* arg, uint64_t remote_addr,
                     uct_rkey_t rkey);
ucs_status_t ep_put_zcopy(uct_ep_h ep, const uct_iov_t* iov, size_t iovcnt, uint64_t remote_addr,
                          uct_rkey_t rkey, uct_completion_t* comp);
ucs_status_t ep_get_short(uct_ep_h ep, void* buffer, unsigned length, uint64_t remote_addr,
                          uct_rkey_t rkey);
ucs_status_t ep_get_bcopy(uct_ep_h ep, uct_unpack_callback_t unpack, void* arg, size_t length,
                          uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp);
ucs_status_t ep_get_zcopy(uct_ep_h ep, const uct_iov_t* iov, size_t iovcnt, uint64_t remote_addr,
                          uct_rkey_t rkey, uct_completion_t* comp);

// The same for callers who do not ask what memory their buffers are (any_memory.cpp).
ucs_status_t ep_put_short_any(uct_ep_h ep, const void* buffer, unsigned length,
                              uint64_t remote_addr, uct_rkey_t rkey);
ucs_status_t ep_get_bcopy_any(uct_ep_h ep, uct_unpack_callback_t unpack, void* arg, size_t length,
                              uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp);
ucs_status_t ep_put_zcopy_any(uct_ep_h ep, const uct_iov_t* iov, size_t iovcnt,
                              uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp);
ucs_status_t ep_get_zcopy_any(uct_ep_h ep, const uct_iov_t* iov, size_t iovcnt,
                              uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp);
ucs_status_t ep_am_zcopy_any(uct_ep_h ep, uint8_t id, const void* header, unsigned header_length,
                             const uct_iov_t* iov, size_t iovcnt, unsigned flags,
                             uct_completion_t* comp);

// What of that memory no HCA registers, through the interface's buffers.
ucs_status_t put_zcopy_unregistered(uct_ep_h ep, const uct_iov_t* iov, size_t iovcnt,
                                    uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp);
ucs_status_t get_zcopy_unregistered(uct_ep_h ep, const uct_iov_t* iov, size_t iovcnt,
                                    uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp);
ucs_status_t am_zcopy_unregistered(uct_ep_h ep, uint8_t id, const void* header,
                                   unsigned header_length, const uct_iov_t* iov, size_t iovcnt,
                                   unsigned flags);

// The same for callers who have not looked, and do so when GPU memory is refused
// (unseen_memory.hpp).
ucs_status_t ep_am_short_unseen(uct_ep_h ep, uint8_t id, uint64_t header, const void* payload,
                                unsigned length);
ucs_status_t ep_am_short_iov_unseen(uct_ep_h ep, uint8_t id, const uct_iov_t* iov, size_t iovcnt);
ucs_status_t ep_put_short_unseen(uct_ep_h ep, const void* buffer, unsigned length,
                                 uint64_t remote_addr, uct_rkey_t rkey);

ucs_status_t ep_atomic_cswap64(uct_ep_h ep, uint64_t compare, uint64_t swap, uint64_t remote_addr,
                               uct_rkey_t rkey, uint64_t* result, uct_completion_t* comp);
ucs_status_t ep_atomic_cswap32(uct_ep_h ep, uint32_t compare, uint32_t swap, uint64_t remote_addr,
                               uct_rkey_t rkey, uint32_t* result, uct_completion_t* comp);
ucs_status_t ep_atomic64_post(uct_ep_h ep, unsigned opcode, uint64_t value, uint64_t remote_addr,
                              uct_rkey_t rkey);
ucs_status_t ep_atomic32_post(uct_ep_h ep, unsigned opcode, uint32_t value, uint64_t remote_addr,
                              uct_rkey_t rkey);
ucs_status_t ep_atomic64_fetch(uct_ep_h ep, unsigned opcode, uint64_t value, uint64_t* result,
                               uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp);
ucs_status_t ep_atomic32_fetch(uct_ep_h ep, unsigned opcode, uint32_t value, uint32_t* result,
                               uint64_t remote_addr, uct_rkey_t rkey, uct_completion_t* comp);

ucs_status_t ep_flush(uct_ep_h ep, unsigned flags, uct_completion_t* comp);
ucs_status_t ep_fence(uct_ep_h ep, unsigned flags);
ucs_status_t ep_check(uct_ep_h ep, unsigned flags, uct_completion_t* comp);
ucs_status_t ep_pending_add(uct_ep_h ep, uct_pending_req_t* request, unsigned flags);
void ep_pending_purge(uct_ep_h ep, uct_pending_purge_callback_t callback, void* arg);
ucs_status_t ep_create(const uct_ep_params_t* params, uct_ep_h* ep);
void ep_destroy(uct_ep_h ep);
ucs_status_t ep_invalidate(uct_ep_h ep);
bool ep_is_connected(uct_ep_h ep, const uct_device_addr_t* device, const uct_iface_addr_t* iface);

} // namespace gdr::rc
