// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The agent thread, see liveness.hpp.
#include "emu/softhca/liveness.hpp"

#include "emu/softhca/engine.hpp"
#include "emu/softhca/fabric.hpp"
#include "emu/softhca/thread.hpp"

#include <chrono>

namespace softhca {
namespace {

// How long a deferred RDMA WRITE may wait for its responder to poll, and how far the timers are off
// at most.
constexpr std::chrono::milliseconds kTick{2};

} // namespace

Agent::Agent(Process& process, pthread_mutex_t& alive)
{
    start_thread([this, &process, &alive] { run(process, alive); });
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return holding_; });
}

void Agent::watch(std::uint32_t qp_index)
{
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        watched_.push_back(qp_index);
    }
    changed_.notify_one();
}

void Agent::run(Process& process, pthread_mutex_t& alive)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&alive, &attributes);
    pthread_mutexattr_destroy(&attributes);
    pthread_mutex_lock(&alive);

    std::unique_lock<std::mutex> lock(mutex_);
    holding_ = true;
    changed_.notify_all();
    while (true) {
        changed_.wait(lock, [this] { return !watched_.empty(); });
        changed_.wait_for(lock, kTick, [] { return false; });
        batch_.swap(watched_);
        lock.unlock();
        std::erase_if(batch_,
                      [&process](std::uint32_t index) { return !run_watched(process, index); });
        lock.lock();
        watched_.insert(watched_.end(), batch_.begin(), batch_.end());
        batch_.clear();
    }
}

} // namespace softhca
