// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What is done with a prepared transfer where a condition holds is an operation like others: a call
// of a step's functions.
#include "sync/transfer.hpp"

#include "cuda/context.hpp"
#include "sync/triggers/pool.hpp"
#include "sync/ucx/refusal.hpp"

#include <algorithm>

#include <sched.h>

using namespace gdr;
using namespace gdr::sync;

namespace {

// Whether its operations run more than once.
bool repeats(ugdr_condition& condition)
{
    const std::lock_guard guard(condition.lock);
    return condition.category == UGDR_CONDITION_KERNEL || condition.recorded.node != nullptr;
}

void give_back(Step* step)
{
    step->transfer->steps.fetch_sub(1, std::memory_order_release);
    Pool<Step>::instance().give_back(step);
}

// Whether a stream sees the words by itself.
bool streams_see(const Arrivals& arrivals)
{
    return arrivals.context() != nullptr && arrivals.abilities().memops &&
           (arrivals.abilities().sees_writes || !arrivals.on_gpu());
}

} // namespace

ugdr_transfer::~ugdr_transfer()
{
    for (const Attached& one : attached_) {
        one.operation->let_go();
    }
}

Sender* ugdr_transfer::sender() const
{
    return prepared->plan.side == UGDR_TRANSFER_SEND ? static_cast<Sender*>(prepared) : nullptr;
}

Receiver* ugdr_transfer::receiver() const
{
    return prepared->plan.side == UGDR_TRANSFER_RECV ? static_cast<Receiver*>(prepared) : nullptr;
}

Step ugdr_transfer::step(Step::Kind kind) const
{
    Step made;
    made.transfer = prepared;
    made.kind = kind;
    made.iteration = prepared->asked();
    return made;
}

void ugdr_transfer::attach(const Step& step, ugdr_condition& condition, unsigned index,
                           const char* function)
{
    Step* attached = nullptr;
    std::unique_ptr<Step> kept;
    if (step.repeated) {
        kept = std::make_unique<Step>(step);
        attached = kept.get();
        attached_.reserve(attached_.size() + 1);
    } else {
        attached = Pool<Step>::instance().take();
        *attached = step;
        prepared->steps.fetch_add(1, std::memory_order_relaxed);
    }
    Operation* const operation =
        Operation::take(Call{Step::begin, Step::go_on, attached, function});
    if (!step.repeated) {
        operation->user_callback.send = [](void*, ucs_status_t, void* over) {
            give_back(static_cast<Step*>(over));
        };
        operation->user_data = attached;
    }
    try {
        context->submit(*operation, &condition, index, false);
    } catch (...) {
        operation->let_go();
        operation->let_go();
        if (!step.repeated) {
            give_back(attached);
        }
        throw;
    }
    if (step.repeated) {
        attached_.push_back({std::move(kept), operation});
    } else {
        operation->let_go();
    }
}

void ugdr_transfer::start_on(ugdr_condition& condition)
{
    const std::lock_guard guard(attaching_);
    Step start = step(Step::Kind::start);
    start.repeated = repeats(condition);
    if (start.repeated) {
        attach(start, condition, 0, "ugdr_transfer_start_on");
        starts_repeatedly_ = true;
        return;
    }
    start.iteration = prepared->ask();
    try {
        attach(start, condition, 0, "ugdr_transfer_start_on");
    } catch (...) {
        prepared->take_back();
        throw;
    }
}

void ugdr_transfer::ready_on(unsigned first, unsigned count, ugdr_condition& condition)
{
    const std::lock_guard guard(attaching_);
    Step ready = step(Step::Kind::ready);
    ready.first = first;
    ready.count = count;
    ready.repeated = repeats(condition);
    if (!ready.repeated && !sender()->claim(ready.iteration, first, count)) {
        throw Refusal(UCS_ERR_INVALID_PARAM,
                      ready.iteration == 0
                          ? "ugdr_transfer_ready_on: no iteration was started"
                          : "ugdr_transfer_ready_on: a partition has been made ready in this "
                            "iteration");
    }
    try {
        attach(ready, condition, 0, "ugdr_transfer_ready_on");
    } catch (...) {
        if (!ready.repeated) {
            sender()->unclaim(ready.iteration, first, count);
        }
        throw;
    }
}

// A stream looks at the word of all by itself where it can, and where the iteration is known.
void ugdr_transfer::wait_on(CUstream stream)
{
    const cuda::Driver* driver = cuda::driver();
    const std::lock_guard guard(attaching_);
    if (driver != nullptr && receiver() != nullptr && !starts_repeatedly_ &&
        streams_see(receiver()->arrivals()) && !is_captured(*driver, stream)) {
        const Arrivals& arrivals = receiver()->arrivals();
        const cuda::CurrentContext current(*driver, context_of(*driver, stream));
        cuda::check(driver->cuStreamWaitValue64(
                        stream, arrivals.words() + arrivals.all() * sizeof(uint64_t),
                        prepared->asked(), CU_STREAM_WAIT_VALUE_GEQ),
                    "cuStreamWaitValue64");
        return;
    }
    ugdr_condition point;
    point.context = context;
    point.category = UGDR_CONDITION_STREAM;
    point.waits = true;
    context->record(point, stream);
    Step wait = step(Step::Kind::wait);
    wait.repeated = repeats(point);
    attach(wait, point, 0, "ugdr_transfer_wait_on");
}

ugdr_dev_transfer_t ugdr_transfer::device()
{
    ugdr_dev_transfer_t made{};
    made.partitions = prepared->plan.partitions;
    if (receiver() != nullptr) {
        const Arrivals& arrivals = receiver()->arrivals();
        if (arrivals.context() == nullptr ||
            (arrivals.on_gpu() && !arrivals.abilities().sees_writes)) {
            throw Refusal(UCS_ERR_UNSUPPORTED,
                          "ugdr_transfer_device: no CUDA context was current when the transfer was "
                          "created, or kernels do not see what an HCA writes while they run");
        }
        made.arrived = on_device<unsigned long long>(arrivals.words());
        made.iteration = on_device<unsigned long long>(arrivals.iteration());
        return made;
    }
    const std::lock_guard guard(attaching_);
    if (kernel_ == nullptr) {
        auto condition = std::make_unique<ugdr_condition>();
        condition->context = context;
        condition->category = UGDR_CONDITION_KERNEL;
        context->add_triggers(*condition, made.partitions, calls);
        for (unsigned i = 0; i < made.partitions; ++i) {
            Step ready = step(Step::Kind::ready);
            ready.repeated = true;
            ready.first = i;
            ready.count = 1;
            attach(ready, *condition, i, "ugdr_dev_ready");
        }
        kernel_ = std::move(condition);
    }
    made.ready = kernel_->device;
    return made;
}

void ugdr_transfer::detach()
{
    Engine& engine = context->engine();
    kernel_.reset();
    for (const Attached& one : attached_) {
        engine.cancel_soon(*one.operation);
    }
    for (bool over = attached_.empty(); !over; sched_yield()) {
        engine.call([&] {
            over = std::ranges::all_of(attached_,
                                       [](const Attached& one) { return one.operation->retired; });
        });
    }
}
