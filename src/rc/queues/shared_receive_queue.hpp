// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// One receive queue for all queue pairs of an interface. It has as many buffers as the peers may
// fill at once, and more while UCP keeps many. It has no more than that, because the HCA fills all
// in turn, and few stay in the caches.
#pragma once

#include "rc/queues/completion_room.hpp"
#include "rc/queues/provider.hpp"
#include "rc/queues/receives.hpp"
#include "rc/queues/registered_memory.hpp"

#include <memory>
#include <vector>

namespace gdr::rc {

class SharedReceiveQueue final : public ReceiveQueues {
    static constexpr unsigned kBatch = 32;

  public:
    static constexpr unsigned kShortest = 4 * kBatch;

    // Whether the HCA can create one: some report limits but create none.
    static bool possible(ibv_pd* pd, const ibv_device_attr& limits);

    // length buffers at first, and at most `most`. Halves length until the buffers can be
    // registered; then it never grows. Throws verbs::Error.
    SharedReceiveQueue(Provider& provider, Receives& receives, CompletionRoom& completions,
                       const ReceiveLayout& layout, unsigned length, unsigned most);

    ibv_srq* srq() const override { return srq_.get(); }
    ibv_recv_wr* post(ibv_recv_wr* list) override;

    // Doubles the buffers until there are `wanted` of them, or the most. If buffers cannot be
    // registered, or the completion queue has no room for them, this is logged once and never
    // retried.
    void grow(size_t wanted) override;

    ibv_qp* take_unfilled(const ibv_wc& wc) override;

  private:
    void add(RegisteredMemory memory, unsigned count);

    ibv_pd* const pd_;
    const verbs::PostReceives post_;
    Receives& receives_;
    CompletionRoom& completions_; // has an entry for each buffer
    const ReceiveLayout layout_;
    unsigned length_ = 0;
    unsigned most_;
    struct Part {
        RegisteredMemory memory;
        std::unique_ptr<Receive[]> receives;
    };
    std::vector<Part> parts_;
    verbs::SharedReceiveQueue srq_;
};

} // namespace gdr::rc
