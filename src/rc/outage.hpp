// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Ends work that the HCA does not end. While a port is down the HCA's own retries should end it,
// but Soft-RoCE (Linux 6.1) can forget a queue pair for ever if its packet finds no route while a
// retry is due. So work that outlasts the retries is ended here. If the HCA reports that it or a
// shared queue is broken, all work is ended.
#pragma once

#include "rc/port_events.hpp"

#include <chrono>

namespace gdr::rc {

struct Iface;

class Outage {
  public:
    // Throws std::exception.
    Outage(PortEvents& events, uint8_t port, PortWatch::Queues queues, Attention& attention,
           EndingQueuePairs& ending)
        : watch_(events, port, queues, attention, ending)
    {
    }

    // The HCA or one of the queues is broken for good. Any thread.
    bool broken() const { return watch_.broken(); }

    // Returns how many completions and endpoints it has handled.
    unsigned handle(Iface& iface);

  private:
    unsigned look_at_port(Iface& iface);
    unsigned give_up(Iface& iface);

    PortWatch watch_;
    unsigned handled_ = 0;  // the outage that was handled last
    bool given_up_ = false; // the HCA or one of our queues is broken
    std::chrono::steady_clock::time_point next_look_;
};

} // namespace gdr::rc
