// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The agent thread, see liveness.hpp.
#include "emu/softhca/liveness.hpp"

#include "emu/softhca/clock.hpp"
#include "emu/softhca/cq.hpp"
#include "emu/softhca/engine.hpp"
#include "emu/softhca/faults.hpp"
#include "emu/softhca/futex.hpp"
#include "emu/softhca/thread.hpp"

#include <sys/prctl.h>

namespace softhca {
namespace {

// How long a deferred RDMA WRITE may wait for its responder to poll, and how far the timers of
// waiting queues are off at most.
constexpr std::uint64_t kTick = 2'000'000;

} // namespace

void ring_doorbell(Arena& arena)
{
    call(arena.doorbell);
}

Agent::Agent(Process& process, pthread_mutex_t& alive) : arena_(process.arena())
{
    start_thread([this, &process, &alive] { run(process, alive); });
    holding_.wait(false);
}

void Agent::watch(std::uint32_t qp_index)
{
    bool is_first;
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        is_first = watched_.empty();
        watched_.push_back(qp_index);
    }
    if (is_first) {
        ring_doorbell(arena_);
    }
}

void Agent::run_batch(Process& process)
{
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        batch_.swap(watched_);
    }
    std::erase_if(batch_, [&process](std::uint32_t index) { return !run_watched(process, index); });
    const std::lock_guard<std::mutex> guard(mutex_);
    watched_.insert(watched_.end(), batch_.begin(), batch_.end());
    batch_.clear();
}

void Agent::run(Process& process, pthread_mutex_t& alive)
{
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); // a modelled wire counts in microseconds
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&alive, &attributes);
    pthread_mutexattr_destroy(&attributes);
    pthread_mutex_lock(&alive);
    holding_.store(true);
    holding_.notify_one();

    std::uint64_t tick = 0; // of the watched queues; 0: none is
    while (true) {
        const std::uint32_t rung = arena_.doorbell.load(std::memory_order_acquire);
        const std::uint64_t next = sooner(ring_channels(process), restore_ports(process));
        if (tick != 0 && now_ns() >= tick) {
            run_batch(process);
            tick = 0;
        }
        if (tick == 0) {
            const std::lock_guard<std::mutex> guard(mutex_);
            tick = watched_.empty() ? 0 : now_ns() + kTick;
        }
        sleep_while(arena_.doorbell, rung, sooner(next, tick));
    }
}

} // namespace softhca
