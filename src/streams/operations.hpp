// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The operations of one interface that are in flight on our streams, on any number of GPUs, and
// their completions.
#pragma once

#include "abi/base.hpp"
#include "cuda/driver.hpp"
#include "streams/device_streams.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace gdr::streams {

// Logs once that copies fail in a forked child, as they all do.
void log_failure_in_child();

// Used by one thread at a time. The number of operations in flight is unlimited.
class Operations {
  public:
    explicit Operations(const cuda::Driver& driver);
    Operations(const Operations&) = delete;
    Operations& operator=(const Operations&) = delete;

    // Waits for the operations in flight without calling their completions.
    ~Operations();

    // The streams on a GPU. Throws cuda::Error.
    DeviceStreams& on(CUdevice device);

    // The same, with their context current to the calling thread as long as the second argument
    // lives. Costs one driver call if the context is current already.
    DeviceStreams& on(CUdevice device, std::optional<cuda::CurrentContext>& current);

    // Everything issued on the stream since its last operation becomes one operation. The stream's
    // context must be current. progress() always calls the completion (may be NULL); a failed
    // operation ends with UCS_ERR_IO_ERROR; the log has a line for each new cause.
    void add(Stream& stream, uct_completion_t* completion);

    // The same for many small operations: those added between two calls of progress() share one
    // event, so their completions are called together.
    void add_together(Stream& stream, uct_completion_t* completion);

    // Adds an operation that has already ended.
    void add_ended(uct_completion_t* completion);

    // Completes the operations that have ended and returns their number.
    unsigned progress();

    // Whether progress() has anything to complete, now or later.
    bool busy() const { return in_flight_ > 0; }

    // UCS_OK if nothing is in flight. Else UCS_INPROGRESS, and progress() calls the completion (may
    // be NULL) when everything in flight now has ended.
    ucs_status_t flush(uct_completion_t* completion);

    // Waits until everything in flight has ended, so that it is ordered before whatever starts
    // later. progress() still has to call the completions.
    void fence();

    // False: progress() has operations to complete. True: event_fd() becomes readable when the
    // operations now in flight on any one stream have ended. Wake-up costs nothing while nobody is
    // armed.
    bool arm();
    int event_fd() const { return event_fd_; }

  private:
    struct Flush {
        uct_completion_t* completion;
        uint64_t sequence;
    };

    DeviceStreams* known(CUdevice device) const;
    CUdevice device_of(const Stream& stream) const;
    void mark();
    void collect_finished();
    uint64_t oldest_in_flight();
    void end(const Operation& operation);

    const cuda::Driver& driver_;
    int event_fd_;
    std::vector<std::unique_ptr<DeviceStreams>> devices_; // one for each GPU in use
    std::vector<Stream*> busy_;                           // with operations in flight
    bool marked_ = true;                                  // every busy stream is
    std::vector<Operation> ended_;                        // completions not called yet
    std::vector<Operation> ending_; // the ended operations that progress() is completing
    std::deque<Flush> flushes_;
    uint64_t sequence_ = 0; // of the newest operation
    uint64_t in_flight_ = 0;
};

} // namespace gdr::streams
