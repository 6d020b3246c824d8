// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The completion queue of an interface. Each receive and each work request that is outstanding has
// an entry of it, taken before it can be posted: it never overflows. The HCA writes to all entries
// in turn, and few of them stay in the caches: so there are few at first, and more as they are
// needed.
#pragma once

#include "verbs/handles.hpp"

namespace gdr::rc {

class Provider;

// Worker thread only.
class CompletionRoom {
  public:
    // No entry is taken; first can be, and most after the HCA has resized the queue. One that
    // resizes none, or may not be asked to, gets the most at once. Throws verbs::Error.
    CompletionRoom(Provider& provider, ibv_comp_channel* channel, unsigned first, unsigned most,
                   bool may_resize);

    ibv_cq* cq() const { return cq_.get(); }

    // False: there are not so many more, and none is taken. What cannot be had is told once, and
    // never tried again.
    bool take(unsigned count);

    // So many of the most can still be taken.
    unsigned left() const { return most_ - taken_; }

    void give_back(unsigned count) { taken_ -= count; }

  private:
    unsigned entries() const { return static_cast<unsigned>(cq_->cqe); }

    unsigned most_;
    unsigned taken_ = 0;
    verbs::CompletionQueue cq_;
};

} // namespace gdr::rc
