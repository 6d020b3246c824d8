// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What one interface has under way on streams of our own, on any number of GPUs, and its
// completion.
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

// A line about a copy that failed; in a forked child, where all do, about the first alone.
void tell_of_failure(CUresult result);

// One thread at a time. There is no limit to operations in flight.
class Operations {
  public:
    explicit Operations(const cuda::Driver& driver);
    Operations(const Operations&) = delete;
    Operations& operator=(const Operations&) = delete;

    // Waits for what is in flight; completions are not called.
    ~Operations();

    // The streams on a GPU. Throws cuda::Error.
    DeviceStreams& on(CUdevice device);

    // The same, with their context current to the calling thread as long as the second argument
    // lives. One call of the driver where it is current already.
    DeviceStreams& on(CUdevice device, std::optional<cuda::CurrentContext>& current);

    // Makes all that was issued on the stream since the last operation one of its own. The stream's
    // context must be current. The completion (may be NULL) is always called by progress(); an
    // operation that fails ends with UCS_ERR_IO_ERROR and a line in the log.
    void add(Stream& stream, uct_completion_t* completion);

    // The same for many small ones: those that are added between two calls of progress() share an
    // event, and their completions come together.
    void add_together(Stream& stream, uct_completion_t* completion);

    // One that has ended already.
    void add_ended(uct_completion_t* completion);

    // Completes what has ended. Returns the number of operations.
    unsigned progress();

    // Whether there is anything for progress() to complete, now or later.
    bool busy() const { return in_flight_ > 0; }

    // UCS_OK when nothing is in flight. Else UCS_INPROGRESS, and completion (may be NULL) is called
    // by progress() when all that is in flight now has ended.
    ucs_status_t flush(uct_completion_t* completion);

    // Waits until all that is in flight has ended, so that whatever starts later comes after it.
    // The completions remain to be called by progress().
    void fence();

    // False: there are operations for progress() to complete. True: event_fd() becomes readable
    // when those now in flight on any one stream have ended. While nothing sleeps, waking up costs
    // nothing.
    bool arm();
    int event_fd() const { return event_fd_; }

  private:
    struct Flush {
        uct_completion_t* completion;
        uint64_t sequence;
    };

    DeviceStreams* known(CUdevice device) const;
    void mark();
    void collect_finished();
    uint64_t oldest_in_flight();
    void end(const Operation& operation);

    const cuda::Driver& driver_;
    int event_fd_;
    std::vector<std::unique_ptr<DeviceStreams>> devices_; // in use; one for each GPU
    std::vector<Stream*> busy_;                           // with operations in flight
    bool marked_ = true;                                  // each of them
    std::vector<Operation> ended_;                        // completions not called yet
    std::vector<Operation> ending_;                       // those of them that progress() is at
    std::deque<Flush> flushes_;
    uint64_t sequence_ = 0; // of the newest operation
    uint64_t in_flight_ = 0;
};

} // namespace gdr::streams
