// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The agent: one thread of each process that opened a device. It holds the robust mutex by which
// other processes see this one alive, and runs the send queues that wait for something when the
// process itself makes no verbs calls: a receiver without receive WQEs, a peer that does not
// answer, a deferred RDMA WRITE. While no queue waits, it sleeps.
#pragma once

#include "emu/softhca/layout.hpp"

#include <condition_variable>
#include <mutex>
#include <vector>

namespace softhca {

class Process;

class Agent {
  public:
    // Returns when the thread holds the mutex.
    Agent(Process& process, pthread_mutex_t& alive);

    // Has the send queue of this QP run from time to time until it is empty.
    void watch(std::uint32_t qp_index);

  private:
    void run(Process& process, pthread_mutex_t& alive);

    std::mutex mutex_;
    std::condition_variable changed_;
    bool holding_ = false;
    std::vector<std::uint32_t> watched_;
    std::vector<std::uint32_t> batch_; // of the thread alone
};

} // namespace softhca
