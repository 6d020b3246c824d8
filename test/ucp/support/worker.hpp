// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A UCP context with one worker, and the only loop in which tests wait: it makes progress by
// polling or by wakeup and gives up at a deadline instead of hanging.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <ucp/api/ucp.h>

namespace ucptest {

using Clock = std::chrono::steady_clock;

class Worker {
  public:
    // features: UCP_FEATURE_*. wakeup: sleep in poll() between events.
    Worker(uint64_t features, bool wakeup);
    ~Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    ucp_worker_h handle() const { return worker_; }
    ucp_context_h context() const { return context_; }
    std::vector<uint8_t> address() const;

    // Calls the callback for active messages with this id; flags: UCP_AM_FLAG_*.
    void handle_am(unsigned id, ucp_am_recv_callback_t callback, void* arg, uint32_t flags = 0);

    // Progresses until done() holds; throws a Failure naming what after the deadline. fds: besides
    // the worker's, the descriptors whose readability may make done() true.
    void wait(const std::function<bool()>& done, const std::string& what,
              std::span<const int> fds = {});
    // The same without a Failure: whether done() held before the deadline.
    bool wait_for(const std::function<bool()>& done, std::chrono::milliseconds limit,
                  std::span<const int> fds = {});

  private:
    void sleep(std::span<const int> fds, std::chrono::milliseconds limit);

    ucp_context_h context_ = nullptr;
    ucp_worker_h worker_ = nullptr;
    int event_fd_ = -1;
};

} // namespace ucptest
