// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The thread, see adapter.hpp.
#include "emu/softmlx5/adapter.hpp"

#include "emu/softhca/clock.hpp"
#include "emu/softhca/counters.hpp"
#include "emu/softhca/thread.hpp"

#include <algorithm>
#include <cstdlib>

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace softmlx5 {
namespace {

// The longer the longer there has been nothing to do. Shorter ones would take so much of a
// processor that programs which poll have to share the others.
constexpr long kPause = 20'000; // ns
constexpr unsigned kLooksBeforePause = 50, kLooksBeforeLongerPause = 4096, kLongestPause = 3;
constexpr unsigned kEventInterval = 64; // looks

void pause(long nanoseconds)
{
    const timespec duration = {0, nanoseconds};
    nanosleep(&duration, nullptr);
}

// The thread runs for a moment and often: at once when its pause is over, though programs that poll
// have all processors. Since Linux 6.12 the shortest time slice sees to that, before short pauses
// do.
void take_precedence()
{
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    // The kernel's struct sched_attr, whose header and libc's exclude each other.
    struct {
        std::uint32_t size, policy;
        std::uint64_t flags;
        std::int32_t nice;
        std::uint32_t priority;
        std::uint64_t runtime, deadline, period; // ns
    } attributes = {};
    attributes.size = sizeof attributes;
    attributes.policy = SCHED_OTHER;
    attributes.nice = getpriority(PRIO_PROCESS, 0);
    attributes.runtime = 100'000;
    syscall(SYS_sched_setattr, 0, &attributes, 0);
}

std::atomic<Adapter*> current{nullptr};

} // namespace

Adapter& Adapter::instance()
{
    static std::mutex mutex;
    const std::lock_guard<std::mutex> guard(mutex);
    Adapter* adapter = current.load();
    if (adapter == nullptr) {
        adapter = new Adapter; // lives as long as the process: its thread may run at exit
        current.store(adapter);
        static const int registered = [] {
            std::atexit(softhca::do_posted); // what was posted last, too
            return pthread_atfork([] { Adapter::instance().mutex_.lock(); },
                                  [] { Adapter::instance().mutex_.unlock(); },
                                  [] { current.store(nullptr); });
        }();
        static_cast<void>(registered);
    }
    return *adapter;
}

Adapter::Guard::Guard() : adapter_(instance())
{
    adapter_.commands_.fetch_add(1);
    adapter_.mutex_.lock();
}

Adapter::Guard::~Guard()
{
    adapter_.mutex_.unlock();
    adapter_.commands_.fetch_sub(1);
}

void Adapter::add(Context& context)
{
    contexts_.push_back(&context);
    look(); // from now on messages wait for it
    if (!started_) {
        started_ = true;
        softhca::start_thread([this] { run(); });
    }
}

void Adapter::remove(Context& context)
{
    context.qps.for_each([this](Qp& qp) { remove(qp); });
    std::erase(contexts_, &context);
}

bool Adapter::look()
{
    const std::uint64_t begin = softhca::now_ns();
    bool some = false;
    const auto all = [this](auto objects, auto visit) {
        for (Context* context : contexts_) {
            (context->*objects).for_each(visit);
        }
    };
    all(&Context::qps, [](Qp& qp) { qp.look(); });
    all(&Context::srqs, [&](Srq& srq) { some |= srq.take_posted(); });
    all(&Context::qps, [&](Qp& qp) { some |= qp.take_receives(); });
    if (!contexts_.empty()) { // which are of one process
        softhca::receives_are_posted(contexts_.front()->hca, begin);
    }
    all(&Context::qps, [&](Qp& qp) { some |= qp.take_sends(*this); });
    all(&Context::cqs, [&](Cq& cq) {
        some |= cq.collect(*this);
        cq.notify();
    });
    return some;
}

void Adapter::settle()
{
    look();
    for (Context* context : contexts_) {
        context->cqs.for_each([this](Cq& cq) {
            while (cq.collect(*this)) {
            }
            cq.notify();
        });
    }
}

void Adapter::run()
{
    take_precedence();
    unsigned in_vain = 0;
    for (unsigned looks = 0;; ++looks) {
        {
            const std::lock_guard<std::mutex> guard(mutex_);
            in_vain = look() ? 0 : in_vain + 1;
            if (looks % kEventInterval == 0) {
                for (Context* context : contexts_) {
                    context->take_events();
                }
            }
        }
        if (in_vain > kLooksBeforePause || commands_.load() != 0) {
            pause(kPause << std::min(in_vain / kLooksBeforeLongerPause, kLongestPause));
        }
    }
}

} // namespace softmlx5

void softhca::do_posted()
{
    if (softmlx5::current.load() != nullptr) {
        const softmlx5::Adapter::Guard guard;
        while (guard->look()) {
        }
    }
}
