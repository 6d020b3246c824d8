// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The thread that closes regions.
#include "ipc/closer.hpp"

#include <utility>

#include <pthread.h>
#include <signal.h>

namespace gdr::ipc {

namespace {

// Blocks all signals in the new thread, so that it takes none of the application's.
std::thread start(auto work)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread thread;
    try {
        thread = std::thread(work);
    } catch (...) {
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
}

} // namespace

void Closer::add(Region::Owned region)
{
    const std::lock_guard guard(mutex_);
    regions_.push_back(std::move(region));
    if (std::exchange(working_, true)) {
        return;
    }
    if (thread_.joinable()) {
        thread_.join(); // it has ended or is about to, without the lock
    }
    try {
        thread_ = start([this] { work(); });
    } catch (const std::exception&) { // no more threads: closed with the next region or in finish()
        working_ = false;
    }
}

void Closer::work()
{
    for (;;) {
        std::vector<Region::Owned> batch; // closed without the lock
        const std::lock_guard guard(mutex_);
        if (regions_.empty()) {
            working_ = false;
            idle_.notify_all();
            return;
        }
        batch.swap(regions_);
    }
}

void Closer::wait_for(std::chrono::milliseconds limit)
{
    std::unique_lock lock(mutex_);
    idle_.wait_for(lock, limit, [&] { return !working_; });
}

void Closer::finish()
{
    std::thread thread;
    {
        const std::lock_guard guard(mutex_);
        thread.swap(thread_);
    }
    if (thread.joinable()) {
        thread.join();
    }
    const std::lock_guard guard(mutex_);
    regions_.clear();
}

} // namespace gdr::ipc
