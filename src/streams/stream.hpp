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

namespace gdr::streams {

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
    explicit Stream(const cuda::Driver& driver); // throws cuda::Error
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    // Waits for what is in flight; completions are not called.
    ~Stream();

    CUstream handle() const { return stream_; }

    // Makes all that was issued on the stream since the last mark one operation. sequence: positive
    // and greater than that of the operation before. Allocates only when more operations are in
    // flight than ever before. Throws cuda::Error.
    void mark(uct_completion_t* completion, uint64_t sequence);

    bool busy() const { return head_ != nullptr; }
    uint64_t oldest() const { return head_->sequence; }              // busy() only
    bool finished() const { return poll() != CUDA_ERROR_NOT_READY; } // the oldest; busy() only

    // The oldest operation if it has ended.
    std::optional<Operation> take_finished();

    // Waits for what is in flight.
    CUresult synchronise();

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
        CUevent event; // stays with the record when it is reused
    };

    Record* take_free();
    CUresult poll() const;

    const cuda::Driver& driver_;
    CUstream stream_ = nullptr;
    Record* head_ = nullptr;
    Record* tail_ = nullptr;
    Record* free_ = nullptr;
    uint64_t notified_ = 0; // a notification is under way for operations up to this one
    bool abandoned_ = false;
};

} // namespace gdr::streams
