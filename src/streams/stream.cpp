// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Operations end with an event behind them. Records and their events are reused: in the steady
// state nothing is allocated.

#include "streams/stream.hpp"

#include <cassert>
#include <memory>

#include <sys/eventfd.h>

namespace gdr::streams {

namespace {

// On a thread of CUDA's, which must not call CUDA. The descriptor itself is passed, so nothing
// dangles.
void signal_eventfd(void* eventfd)
{
    eventfd_write(static_cast<int>(reinterpret_cast<intptr_t>(eventfd)), 1);
}

} // namespace

Stream::Stream(const cuda::Driver& driver) : driver_(driver)
{
    cuda::check(driver_.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

Stream::~Stream()
{
    synchronise();
    for (Record** list : {&head_, &free_}) {
        while (Record* record = *list) {
            *list = record->next;
            if (!abandoned_)
                driver_.cuEventDestroy(record->event);
            delete record;
        }
    }
    if (!abandoned_)
        driver_.cuStreamDestroy(stream_);
}

Stream::Record* Stream::take_free()
{
    if (Record* record = free_) {
        free_ = record->next;
        return record;
    }
    auto record = std::make_unique<Record>();
    cuda::check(driver_.cuEventCreate(&record->event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    return record.release();
}

void Stream::mark(uct_completion_t* completion, uint64_t sequence)
{
    Record* record = take_free();
    CUresult result = driver_.cuEventRecord(record->event, stream_);
    if (result != CUDA_SUCCESS) {
        record->next = free_;
        free_ = record;
        cuda::check(result, "cuEventRecord");
    }
    *record = {nullptr, completion, sequence, record->event};
    (busy() ? tail_->next : head_) = record;
    tail_ = record;
}

CUresult Stream::poll() const
{
    assert(busy());
    return abandoned_ ? CUDA_ERROR_CONTEXT_IS_DESTROYED : driver_.cuEventQuery(head_->event);
}

std::optional<Operation> Stream::take_finished()
{
    if (!busy())
        return std::nullopt;
    CUresult result = poll();
    if (result == CUDA_ERROR_NOT_READY)
        return std::nullopt;
    Record* record = head_;
    head_ = record->next;
    record->next = free_;
    free_ = record;
    return Operation{record->completion, record->sequence, result};
}

CUresult Stream::synchronise()
{
    return abandoned_ ? CUDA_ERROR_CONTEXT_IS_DESTROYED : driver_.cuStreamSynchronize(stream_);
}

void Stream::notify(int eventfd)
{
    assert(busy());
    if (notified_ >= head_->sequence)
        return;
    auto* argument = reinterpret_cast<void*>(static_cast<intptr_t>(eventfd));
    cuda::check(driver_.cuLaunchHostFunc(stream_, signal_eventfd, argument), "cuLaunchHostFunc");
    notified_ = tail_->sequence;
}

void Stream::abandon()
{
    abandoned_ = true;
}

} // namespace gdr::streams
