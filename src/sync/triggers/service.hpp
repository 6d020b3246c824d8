// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the engine's thread serves, from the first moment to the last.
#pragma once

#include "sync/triggers/engine.hpp"

#include <sched.h>

namespace gdr::sync {

class Service {
  public:
    // Begins. served and the engine outlive it, unless the engine's thread has been stopped before.
    Service(Engine& engine, Served& served) : engine_(engine), served_(served)
    {
        serve_.kind = Command::Kind::serve;
        leave_.kind = Command::Kind::leave;
        serve_.served = leave_.served = &served;
        engine.submit(&serve_);
    }
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;

    // Returns when the engine's thread has left it for good.
    void end()
    {
        engine_.submit(&leave_);
        while (!served_.left.load(std::memory_order_acquire)) {
            if (engine_.settings().by_caller) {
                engine_.progress();
            } else {
                sched_yield();
            }
        }
    }

  private:
    Engine& engine_;
    Served& served_;
    Command serve_, leave_;
};

} // namespace gdr::sync
