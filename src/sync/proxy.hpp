// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The library's thread, which makes an engine's progress.
#pragma once

#include "sync/engine.hpp"

#include <atomic>
#include <chrono>

#include <pthread.h>

namespace gdr::sync {

class Proxy {
  public:
    // Throws std::system_error. cores: nullptr for those of the caller.
    Proxy(Engine& engine, ugdr_idle_t idle, const ucs_cpu_set_t* cores);
    Proxy(const Proxy&) = delete;
    Proxy& operator=(const Proxy&) = delete;

    // Ends the thread once its round is over. Returns false if it has not ended in time; then
    // neither it nor the engine may be destroyed.
    bool stop(std::chrono::milliseconds limit);

  private:
    void run();
    void rest(std::chrono::steady_clock::duration idle_for);

    Engine& engine_;
    const ugdr_idle_t idle_;
    const std::chrono::microseconds spin_;
    std::atomic<bool> stop_{false};
    pthread_t thread_{};
};

} // namespace gdr::sync
