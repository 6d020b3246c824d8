// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A CUDA stream of our own and the operations in flight on it, oldest first. The stream is
// non-blocking: a stream that synchronises with the legacy stream would wait for the application's
// kernels, and would deadlock if one of them waits for us.
#pragma once

#include "abi/base.hpp"
#include "cuda/driver.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace gdr::streams {

enum class Direction { from_device, to_device };

// An operation that has ended.
struct Operation {
    uct_completion_t* completion; // may be NULL
    uint64_t sequence;            // in the order of starting
    CUresult result;
};

// Used by one thread at a time. The context in which it was created must be current in the
// destructor and in every call that can throw.
class Stream {
  public:
    // context: the current one. Throws cuda::Error.
    Stream(const cuda::Driver& driver, CUcontext context);
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    // Waits for the operations in flight without calling their completions.
    ~Stream();

    CUstream handle() const { return stream_; }
    CUcontext context() const { return context_; }

    // Everything issued on the stream since the last call becomes one operation. Its end is seen
    // only after the next mark(). sequence is positive and greater than that of the operation
    // before. Allocates only when more operations are in flight than ever before.
    void add(uct_completion_t* completion, uint64_t sequence);

    // Records one event behind all operations that have none behind them yet, if there are any. If
    // CUDA refuses the event, it waits for the operations, which then end with CUDA's error.
    void mark();
    bool marked() const { return head_ == nullptr || marked_ >= tail_->sequence; }

    bool busy() const { return head_ != nullptr; }
    uint64_t oldest() const { return head_->sequence; }        // busy() only
    bool finished() { return poll() != CUDA_ERROR_NOT_READY; } // the oldest operation; busy() only

    // Removes and returns the oldest operation if it has ended.
    std::optional<Operation> take_finished();

    // Waits for everything in flight.
    CUresult synchronise();

    // The same, but faster if the last work on the stream is a copy of so many bytes between the
    // GPU and pinned host memory. The context must be current.
    CUresult synchronise_copy(Direction direction, size_t bytes);

    // Writes to the eventfd once everything in flight has ended; the descriptor must stay open
    // until then. Throws cuda::Error. busy() only.
    void notify(int eventfd);

    // To be called when the context, and the stream with it, is gone: everything in flight ends
    // with an error, and CUDA is not called any more.
    void abandon();

  private:
    struct Record {
        Record* next;
        uct_completion_t* completion;
        uint64_t sequence;
        CUevent event; // behind this operation and all before it; NULL: none directly behind it
    };

    CUresult record_event(CUevent* event);
    CUresult poll();
    bool record_arrival();

    const cuda::Driver& driver_;
    const CUcontext context_;
    CUstream stream_ = nullptr;
    Record* head_ = nullptr;
    Record* tail_ = nullptr;
    Record* free_ = nullptr;
    std::vector<CUevent> spare_; // events
    CUevent arrival_ = nullptr;  // recorded behind a copy that somebody waits for
    bool arrival_refused_ = false;
    uint64_t notified_ = 0;           // a notification is under way for operations up to this one
    uint64_t marked_ = 0;             // an event is behind operations up to this one
    uint64_t ended_ = 0;              // an event has shown the end of operations up to this one
    CUresult failure_ = CUDA_SUCCESS; // everything in flight ends with it
    bool abandoned_ = false;
};

} // namespace gdr::streams
