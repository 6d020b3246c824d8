// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The completion queue of an interface. Each outstanding receive and work request takes an entry
// before it is posted, so the queue never overflows. The HCA writes to all entries in turn, and
// caches hold only few of them, so the queue starts small and grows as needed.
#pragma once

#include "verbs/handles.hpp"

namespace gdr::rc {

class Provider;

// Worker thread only.
class CompletionRoom {
  public:
    // At first no entry is taken. Up to first can be taken at once, and up to most after the HCA
    // has resized the queue. If the HCA cannot resize, or may_resize is false, the queue gets most
    // entries at once. Throws verbs::Error.
    CompletionRoom(Provider& provider, ibv_comp_channel* channel, unsigned first, unsigned most,
                   bool may_resize);

    ibv_cq* cq() const { return cq_.get(); }

    // False: not enough entries, and none is taken. A failed resize is logged once and never
    // retried.
    bool take(unsigned count);

    // Entries that can still be taken, after resizing if necessary.
    unsigned left() const { return most_ - taken_; }

    void give_back(unsigned count) { taken_ -= count; }

  private:
    unsigned entries() const { return static_cast<unsigned>(cq_->cqe); }

    unsigned most_;
    unsigned taken_ = 0;
    verbs::CompletionQueue cq_;
};

} // namespace gdr::rc
