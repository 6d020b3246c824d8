// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The asynchronous events of an HCA, about its ports, ending queue pairs and broken queues, and
// their listeners.
#pragma once

#include "rc/connect/attention.hpp"
#include "rc/connect/ending.hpp"
#include "verbs/device.hpp"

#include <atomic>
#include <mutex>
#include <vector>

namespace gdr::rc {

class PortWatch;

// The asynchronous events of an opened HCA, read by UCX's async thread while anybody watches a
// port.
class PortEvents {
  public:
    explicit PortEvents(const verbs::Device& device) : device_(device) {}

  private:
    friend class PortWatch;

    void add(PortWatch* watch);
    void remove(PortWatch* watch);
    void start();
    void stop();
    static void on_event(int fd, unsigned char events, void* self);
    static void on_timer(int fd, unsigned char events, void* self);
    void handle(const ibv_async_event& event);
    bool set_down(uint8_t port, bool down); // true: an interface of the port did not know it
    void last_wqe_reached(ibv_qp* qp);
    void has_broken(const ibv_async_event& event);

    const verbs::Device& device_;
    std::mutex registration_; // for adding and removing watches, which waits for the callbacks
    std::mutex lock_;         // for what the callbacks use
    std::vector<PortWatch*> watches_;
    unsigned outages_ = 0;
    int timer_fd_ = -1;
};

// An interface's view of its port and of the queues that it depends on.
class PortWatch {
  public:
    // The queues that all connections of the interface share.
    struct Queues {
        const ibv_cq* cq;
        const ibv_srq* srq;
    };

    // Calls for attention when the port changes its state, several times a second while it is down,
    // and when the HCA or one of the queues breaks. Throws std::exception.
    PortWatch(PortEvents& events, uint8_t port, Queues queues, Attention& attention,
              EndingQueuePairs& ending)
        : events_(events), port_(port), queues_(queues), attention_(attention), ending_(ending)
    {
        events_.add(this);
    }
    ~PortWatch() { events_.remove(this); }
    PortWatch(const PortWatch&) = delete;
    PortWatch& operator=(const PortWatch&) = delete;

    // The number of the present outage; 0: the port is up. Any thread.
    unsigned outage() const { return outage_.load(std::memory_order_relaxed); }

    // The HCA or one of the queues is broken for good. Any thread.
    bool broken() const { return broken_.load(std::memory_order_relaxed); }

  private:
    friend class PortEvents;

    void notify() { attention_.call(); }

    PortEvents& events_;
    const uint8_t port_;
    const Queues queues_;
    Attention& attention_;
    EndingQueuePairs& ending_;
    std::atomic<unsigned> outage_{0};
    std::atomic<bool> broken_{false};
};

} // namespace gdr::rc
