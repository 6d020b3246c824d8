// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A CUDA stream of our own with the operations in flight on it, oldest first. The stream is
// non-blocking: the legacy stream would wait for the application's kernels, and for ever if one of
// them waits for us.
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

// One thread at a time. The context in which it was made must be current in every call that can
// throw and in the destructor.
class Stream {
  public:
    // context: the current one. Throws cuda::Error.
    Stream(const cuda::Driver& driver, CUcontext context);
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    // Waits for what is in flight; completions are not called.
    ~Stream();

    CUstream handle() const { return stream_; }
    CUcontext context() const { return context_; }

    // Makes all that was issued on the stream since the last call one operation. Its end is not
    // seen before the next mark(). sequence: positive and greater than that of the operation
    // before. Allocates only when more operations are in flight than ever before.
    void add(uct_completion_t* completion, uint64_t sequence);

    // Puts one event behind all operations that have none behind them yet, if there are any. Where
    // CUDA refuses it, it waits for them, and they end with its error.
    void mark();
    bool marked() const { return head_ == nullptr || marked_ >= tail_->sequence; }

    bool busy() const { return head_ != nullptr; }
    uint64_t oldest() const { return head_->sequence; }        // busy() only
    bool finished() { return poll() != CUDA_ERROR_NOT_READY; } // the oldest; busy() only

    // The oldest operation if it has ended.
    std::optional<Operation> take_finished();

    // Waits for what is in flight.
    CUresult synchronise();

    // The same, sooner where this ends with a copy of so many bytes between the GPU and pinned host
    // memory. The context must be current.
    CUresult synchronise_copy(Direction direction, size_t bytes);

    // Writes to the eventfd once all that is in flight has ended; the descriptor must stay open
    // until then. Throws cuda::Error. busy() only.
    void notify(int eventfd);

    // The context is gone and took the stream along: what is in flight ends with an error, and CUDA
    // is not called any more.
    void abandon();

  private:
    struct Record {
        Record* next;
        uct_completion_t* completion;
        uint64_t sequence;
        CUevent event; // behind this operation and those before it; NULL: none is right behind it
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
    CUevent arrival_ = nullptr;  // of a copy, when somebody waits for one
    bool arrival_refused_ = false;
    uint64_t notified_ = 0; // a notification is under way for operations up to this one
    uint64_t marked_ = 0;   // there is an event behind operations up to this one
    uint64_t ended_ = 0;    // operations up to this one have ended, by an event behind them
    CUresult failure_ = CUDA_SUCCESS; // of the stream: all that is in flight ends with it
    bool abandoned_ = false;
};

} // namespace gdr::streams
