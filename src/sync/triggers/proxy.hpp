// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A thread of the library, which makes progress: of an engine, or of rings.
#pragma once

#include "sync/ucx-gdr/ugdr.h"

#include <atomic>
#include <chrono>

#include <pthread.h>

namespace gdr::sync {

// Work: Engine or Rings.
template <typename Work>
class Proxy {
  public:
    // Throws std::system_error. cores: nullptr for those of the caller.
    Proxy(Work& work, ugdr_idle_t idle, const ucs_cpu_set_t* cores);
    Proxy(const Proxy&) = delete;
    Proxy& operator=(const Proxy&) = delete;

    // Ends the thread once its round is over. Returns false if it has not ended in time; then
    // neither it nor the work may be destroyed.
    bool stop(std::chrono::milliseconds limit);

  private:
    void run();
    void rest(std::chrono::steady_clock::duration idle_for);

    Work& work_;
    const ugdr_idle_t idle_;
    const std::chrono::microseconds spin_;
    std::atomic<bool> stop_{false};
    pthread_t thread_{};
};

} // namespace gdr::sync
