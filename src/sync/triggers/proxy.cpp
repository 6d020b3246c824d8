// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The thread, and what it does while nothing happens: a GPU cannot wake it.
#include "sync/triggers/proxy.hpp"

#include "sync/rings/rings.hpp"
#include "sync/triggers/engine.hpp"
#include "sync/ucx/deadline.hpp"

#include <cstdlib>
#include <ctime>
#include <system_error>

#include <csignal>
#include <sched.h>
#include <unistd.h>

namespace gdr::sync {
namespace {

using Clock = std::chrono::steady_clock;

constexpr long kDefaultSpin = 200; // microseconds
constexpr unsigned kTurns = 16;    // between two looks at the clock
constexpr auto kNap = std::chrono::microseconds(50);
constexpr auto kPatience = std::chrono::milliseconds(10); // before naps, if something may happen

std::chrono::microseconds configured_spin()
{
    const char* text = std::getenv("UGDR_SPIN_US");
    return std::chrono::microseconds(text != nullptr ? std::atol(text) : kDefaultSpin);
}

void pause()
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

} // namespace

template <typename Work>
Proxy<Work>::Proxy(Work& work, ugdr_idle_t idle, const ucs_cpu_set_t* cores)
    : work_(work), idle_(idle), spin_(configured_spin())
{
    sigset_t all, old;
    sigfillset(&all); // this thread does not handle the program's signals
    pthread_sigmask(SIG_BLOCK, &all, &old);
    const int error = pthread_create(
        &thread_, nullptr,
        [](void* proxy) -> void* {
            static_cast<Proxy*>(proxy)->run();
            return nullptr;
        },
        this);
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
    if (error != 0) {
        throw std::system_error(error, std::generic_category(), "pthread_create");
    }
    pthread_setname_np(thread_, "ucx-gdr");
    static_assert(sizeof(ucs_cpu_set_t) == sizeof(cpu_set_t));
    if (cores != nullptr) {
        pthread_setaffinity_np(thread_, sizeof(cpu_set_t),
                               reinterpret_cast<const cpu_set_t*>(cores));
    }
}

template <typename Work>
bool Proxy<Work>::stop(std::chrono::milliseconds limit)
{
    stop_ = true;
    work_.doorbell.ring();
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const timespec until = later(now, limit);
    return pthread_timedjoin_np(thread_, nullptr, &until) == 0;
}

template <typename Work>
void Proxy<Work>::run()
{
    Clock::time_point last_event;
    Clock::duration idle_for{};
    for (uint64_t idle = 0; !stop_.load(std::memory_order_relaxed);) {
        if (work_.progress() > 0) {
            idle = 0;
            continue;
        }
        // Reading the clock costs as much as looking at everything, so it is not read each time.
        if (idle++ % kTurns == 0) {
            const auto now = Clock::now();
            if (idle == 1) {
                last_event = now;
            }
            idle_for = now - last_event;
        }
        rest(idle_for);
    }
}

// Called when nothing has happened in the last round.
template <typename Work>
void Proxy<Work>::rest(Clock::duration idle_for)
{
    if (idle_ == UGDR_IDLE_SPIN || (idle_ == UGDR_IDLE_ADAPTIVE && idle_for < spin_)) {
        pause();
        return;
    }
    const bool waits = work_.under_way() || work_.armed();
    if (waits && (idle_ == UGDR_IDLE_YIELD || idle_for < kPatience)) {
        sched_yield();
    } else if (waits || work_.serves_others()) {
        usleep(kNap.count());
    } else {
        work_.doorbell.sleep_unless([this] { return work_.has_news() || stop_; });
    }
}

template class Proxy<Engine>;
template class Proxy<Rings>;

} // namespace gdr::sync
