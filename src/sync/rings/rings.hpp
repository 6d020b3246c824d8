// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The rings that one thread serves: the engine's, or one of their own.
#pragma once

#include "sync/rings/doorbell.hpp"
#include "sync/rings/ring.hpp"
#include "sync/rings/served.hpp"

#include <algorithm>

namespace gdr::sync {

class Rings final : public Served {
  public:
    void add(Ring& ring) { rings_.push_back(&ring); }

    // ---- the one thread; what a Proxy asks of its work

    unsigned progress() override
    {
        unsigned events = 0;
        for (Ring* ring : rings_) {
            events += ring->progress();
        }
        return events;
    }
    bool under_way() const override
    {
        return std::any_of(rings_.begin(), rings_.end(),
                           [](const Ring* ring) { return ring->under_way(); });
    }
    bool armed() const override { return true; }
    bool serves_others() const { return false; }
    bool has_news() const override { return false; }

    Doorbell doorbell;

  private:
    std::vector<Ring*> rings_;
};

} // namespace gdr::sync
