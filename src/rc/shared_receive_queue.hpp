// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// One receive queue for all queue pairs of an interface. It has as many buffers as the peers may
// fill at once, and more while UCP keeps many: the HCA fills all in turn, and fewer stay in the
// caches.
#pragma once

#include "rc/completion_room.hpp"
#include "rc/receives.hpp"
#include "rc/registered_memory.hpp"

#include <memory>
#include <vector>

namespace gdr::rc {

class SharedReceiveQueue final : public ReceiveQueues {
    static constexpr unsigned kBatch = 32;

  public:
    static constexpr unsigned kShortest = 4 * kBatch;

    // Whether the HCA makes any: some tell of limits and make none.
    static bool possible(ibv_pd* pd, const ibv_device_attr& limits);

    // length buffers, and most at most. Halves length until the buffers can be registered; there
    // are no more then. Throws verbs::Error.
    SharedReceiveQueue(ibv_pd* pd, Receives& receives, CompletionRoom& completions,
                       const ReceiveLayout& layout, unsigned length, unsigned most);

    ibv_srq* srq() const override { return srq_.get(); }
    ibv_recv_wr* post(ibv_recv_wr* list) override;

    // Doubles the buffers until there are so many, or the most. What cannot be registered, or has
    // no room in the completion queue, is never tried again; it is told once.
    void grow(size_t wanted) override;

    ibv_qp* take_unfilled(const ibv_wc& wc) override;

  private:
    void add(RegisteredMemory memory, unsigned count);

    ibv_pd* const pd_;
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
