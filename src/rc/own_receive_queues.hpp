// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A receive queue for each queue pair, where the HCA makes no shared one. An acceptor's has as many
// buffers as its peer may fill at once, which peers are told with the address. UCP may keep none of
// them, since no other buffer takes its place. An endpoint receives nothing but grants, which have
// no data.
#pragma once

#include "rc/receives.hpp"
#include "rc/registered_memory.hpp"

#include <memory>
#include <mutex>
#include <unordered_map>

namespace gdr::rc {

struct OwnReceiveQueue {
    ibv_qp* qp; // NULL: destroyed
    RegisteredMemory memory;
    std::unique_ptr<Receive[]> receives;
    unsigned count;
    unsigned back = 0;               // came back for good
    bool ending = false;             // nothing more is posted
    ibv_recv_wr* again = nullptr;    // being posted
    OwnReceiveQueue* next = nullptr; // of those that post
};

class OwnReceiveQueues final : public ReceiveQueues {
    static constexpr unsigned kBatch = 16;

  public:
    // Receives of a queue pair. A batch of them may wait to be posted; of the grants that a window
    // asks for, two are under way at most.
    static constexpr unsigned length(Receiver receiver, unsigned window)
    {
        return (receiver == Receiver::acceptor ? window : 2) + kBatch;
    }
    // What tells that the last one has come back is one more.
    static constexpr unsigned work_requests(Receiver receiver, unsigned window)
    {
        return length(receiver, window) + 1;
    }

    // Of a connection each way.
    static constexpr unsigned fewest_work_requests(unsigned window)
    {
        return work_requests(Receiver::acceptor, window) +
               work_requests(Receiver::endpoint, window);
    }

    // most: work requests of all queue pairs together; the completion queue has room for them.
    // Throws verbs::Error.
    OwnReceiveQueues(ibv_pd* pd, Receives& receives, const ReceiveLayout& layout, unsigned window,
                     unsigned most);

    void ask_for(ibv_qp_cap& capabilities, Receiver receiver) const override;
    void supply(ibv_qp* qp, Receiver receiver) override;
    bool full() const override;

    ibv_recv_wr* post(ibv_recv_wr* list) override;
    ibv_qp* take_unfilled(const ibv_wc& wc) override;
    void forget(ibv_qp* qp) override;

  private:
    void come_back(OwnReceiveQueue& queue);

    ibv_pd* const pd_;
    Receives& receives_;
    const ReceiveLayout layout_;
    const unsigned window_;
    const unsigned most_;
    const RegisteredMemory no_data_; // one buffer, of all that endpoints receive

    mutable std::mutex lock_; // of what follows
    unsigned taken_ = 0;
    std::unordered_map<uint32_t, std::unique_ptr<OwnReceiveQueue>> queues_; // by queue pair number

    // Of queue pairs that are gone, until all of their receives have come back. Those that an HCA
    // forgets, because it broke or the queue pair was destroyed amid its work, never do.
    std::unordered_map<OwnReceiveQueue*, std::unique_ptr<OwnReceiveQueue>> gone_;
};

} // namespace gdr::rc
