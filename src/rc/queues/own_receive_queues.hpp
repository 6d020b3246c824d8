// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A receive queue for each queue pair, for HCAs without shared receive queues. An accepted
// connection's queue has as many buffers as its peer may fill at once; the address tells peers this
// number. UCP may keep none of the buffers, because no other buffer takes its place. An endpoint
// receives only grants, which have no data.
#pragma once

#include "rc/queues/receives.hpp"
#include "rc/queues/registered_memory.hpp"

#include <memory>
#include <mutex>
#include <unordered_map>

namespace gdr::rc {

struct OwnReceiveQueue {
    ibv_qp* qp; // NULL: destroyed
    RegisteredMemory memory;
    std::unique_ptr<Receive[]> receives;
    unsigned count;
    unsigned back = 0;               // came back and stay
    bool ending = false;             // nothing more is posted
    ibv_recv_wr* again = nullptr;    // being posted
    OwnReceiveQueue* next = nullptr; // in the list of queues that post
};

class OwnReceiveQueues final : public ReceiveQueues {
    static constexpr unsigned kBatch = 16;

  public:
    // Receives of a queue pair. A batch of them may wait to be posted; at most two window grants
    // are under way to an endpoint.
    static constexpr unsigned length(Side side, unsigned window)
    {
        return (side == Side::passive ? window : 2) + kBatch;
    }
    // One more for the receive that shows that the last has come back.
    static constexpr unsigned work_requests(Side side, unsigned window)
    {
        return length(side, window) + 1;
    }

    // For a connection in each direction.
    static constexpr unsigned fewest_work_requests(unsigned window)
    {
        return work_requests(Side::passive, window) + work_requests(Side::active, window);
    }

    // most: work requests of all queue pairs together; the completion queue has room for them.
    // Throws verbs::Error.
    OwnReceiveQueues(ibv_pd* pd, Receives& receives, const ReceiveLayout& layout, unsigned window,
                     unsigned most);

    void ask_for(ibv_qp_cap& capabilities, Side side) const override;
    void supply(ibv_qp* qp, Side side) override;
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
    const RegisteredMemory no_data_; // one buffer for everything that endpoints receive

    mutable std::mutex lock_; // for the members below
    unsigned taken_ = 0;
    std::unordered_map<uint32_t, std::unique_ptr<OwnReceiveQueue>> queues_; // by queue pair number

    // Of destroyed queue pairs, until all of their receives have come back. Receives never come
    // back if the HCA forgets them, because it broke or the queue pair was destroyed during its
    // work.
    std::unordered_map<OwnReceiveQueue*, std::unique_ptr<OwnReceiveQueue>> gone_;
};

} // namespace gdr::rc
