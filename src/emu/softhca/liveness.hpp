// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The agent: one thread of each process that opened a device. It holds the robust mutex by which
// other processes see this one alive, and runs the send queues that wait for something when the
// process itself makes no verbs calls: a receiver without receive WQEs, a peer that does not
// answer, a deferred RDMA WRITE. It rings completion channels for entries whose time has come.
// While nothing waits, it sleeps.
#pragma once

#include "emu/softhca/layout.hpp"

#include <mutex>
#include <vector>

namespace softhca {

class Process;

// Has the agent of a process look for what there is to do.
void ring_doorbell(Arena& arena);

class Agent {
  public:
    // Returns when the thread holds the mutex.
    Agent(Process& process, pthread_mutex_t& alive);

    // Has the send queue of this QP run from time to time until it is empty.
    void watch(std::uint32_t qp_index);

  private:
    void run(Process& process, pthread_mutex_t& alive);

    void run_batch(Process& process);

    Arena& arena_;
    std::atomic<bool> holding_{false};
    std::mutex mutex_;
    std::vector<std::uint32_t> watched_;
    std::vector<std::uint32_t> batch_; // of the thread alone
};

} // namespace softhca
