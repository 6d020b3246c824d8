// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A second handle of a protection domain for objects that one thread at a time uses: the provider
// library takes no locks for them, and may give them a doorbell of their own.
#pragma once

#include "verbs/handles.hpp"

namespace gdr::verbs {

class ThreadDomain {
  public:
    // Throws Error: many libraries support no thread domains, and others have a limited number of
    // doorbells.
    explicit ThreadDomain(ibv_pd* protection);

    // Must outlive the objects created with it. While a call uses one of these objects, no other
    // call may use any of them; that includes the calls that destroy them.
    ibv_pd* pd() const { return parent_.get(); }

  private:
    struct Deallocate {
        void operator()(ibv_td* td) const { ibv_dealloc_td(td); }
    };

    std::unique_ptr<ibv_td, Deallocate> thread_;
    ProtectionDomain parent_;
};

} // namespace gdr::verbs
