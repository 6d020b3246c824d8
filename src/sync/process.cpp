// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "sync/process.hpp"

#include <cstdlib>
#include <set>

namespace gdr::sync {
namespace {

struct Process {
    std::mutex lock;
    std::set<Context*> contexts;
    std::atomic<bool> forked{false};
};

Process& process()
{
    static auto& instance = *new Process; // used while the process ends
    return instance;
}

// A thread may not come back from a function of the application, or from the wait for its lock.
void stop_all()
{
    constexpr auto kPatience = std::chrono::seconds(1);
    if (in_forked_child()) {
        return;
    }
    const std::lock_guard guard(process().lock);
    for (Context* context : process().contexts) {
        context->stop(kPatience);
    }
    process().contexts.clear();
}

} // namespace

bool in_forked_child()
{
    return process().forked.load(std::memory_order_relaxed);
}

void enter(Context& context)
{
    // Registered after UCX's own handlers, so that it runs before UCX ends.
    static const bool once = [] {
        std::atexit(stop_all);
        pthread_atfork(nullptr, nullptr, [] {
            if (!process().contexts.empty()) {
                process().forked = true;
            }
        });
        return true;
    }();
    static_cast<void>(once);
    const std::lock_guard guard(process().lock);
    process().contexts.insert(&context);
}

void leave(Context& context)
{
    const std::lock_guard guard(process().lock);
    process().contexts.erase(&context);
}

} // namespace gdr::sync
