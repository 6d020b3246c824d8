// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A protection domain once more, for objects that one thread at a time uses: the HCA's library
// takes no locks for them, and may give them a doorbell of their own.
#pragma once

#include "verbs/handles.hpp"

namespace gdr::verbs {

class ThreadDomain {
  public:
    // Throws Error: many libraries know none, and others have only so many doorbells.
    explicit ThreadDomain(ibv_pd* protection);

    // Gone after what is made with it. No call that names one of these objects, that which destroys
    // it included, may be made while another is.
    ibv_pd* pd() const { return parent_.get(); }

  private:
    struct Deallocate {
        void operator()(ibv_td* td) const { ibv_dealloc_td(td); }
    };

    std::unique_ptr<ibv_td, Deallocate> thread_;
    ProtectionDomain parent_;
};

} // namespace gdr::verbs
