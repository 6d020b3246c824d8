// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Copies between any two addresses of this process, of host, CUDA or managed memory, on any GPU and
// of whatever context, and their completion. What the caller has as current context does not matter
// and is not changed: copies run on streams in the GPU's primary context, which reaches the memory
// of the others as fast.
//
// A copy between two plain host addresses is made by the CPU at once. All others are CUDA's.
#pragma once

#include "abi/base.hpp"
#include "copy/device_streams.hpp"
#include "cuda/driver.hpp"
#include "stats/statistics.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace gdr::copy {

enum class Direction { put, get }; // from or to the caller's iov

// One thread at a time. A copy that cannot be started or, in copy_now(), fails, throws
// std::exception with CUDA's or the kernel's reason: an address that is neither live CUDA memory
// nor accessible to the CPU, as freed device memory is; a failed GPU; no memory. None of it goes on
// after the call then.
class Engine {
  public:
    explicit Engine(const cuda::Driver& driver);
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // Waits for copies in flight; their completions are not called.
    ~Engine();

    // Starts a copy between the concatenated iov and remote. There is no limit to copies in flight.
    // The completion (may be NULL) is always called by progress(), for length 0 too; one that fails
    // after its start ends with UCS_ERR_IO_ERROR and a line in the log.
    void start(Direction direction, std::span<const uct_iov_t> iov, void* remote,
               uct_completion_t* completion);

    // Returns when the copy has ended.
    void copy_now(void* destination, const void* source, size_t length);

    // Completes what has ended. Returns the number of copies.
    unsigned progress();

    // Whether there is anything for progress() to complete, now or later.
    bool busy() const { return in_flight_ > 0; }

    // UCS_OK when nothing is in flight. Else UCS_INPROGRESS, and completion (may be NULL) is called
    // by progress() when all that is in flight now has ended.
    ucs_status_t flush(uct_completion_t* completion);

    // Waits until all that is in flight has ended, so that whatever starts later comes after it.
    // The completions remain to be called by progress().
    void fence();

    // False: there are copies for progress() to complete. True: event_fd() becomes readable when
    // the copies now in flight on any one stream have ended. While nothing sleeps, waking up costs
    // nothing.
    bool arm();
    int event_fd() const { return event_fd_; }

    const stats::Counts& counts() const { return counts_; }

  private:
    struct Flush {
        uct_completion_t* completion;
        uint64_t sequence;
    };
    class Issue;

    DeviceStreams& streams_of(CUdevice device);
    template <class Function>
    void for_each_busy(Function function);
    void collect_finished();
    uint64_t oldest_in_flight();
    void end(const Operation& operation);

    const cuda::Driver& driver_;
    int event_fd_;
    std::vector<std::unique_ptr<DeviceStreams>> devices_; // in use; one for each GPU
    std::vector<Operation> ended_;                        // completions not called yet
    std::vector<Operation> ending_;                       // those of them that progress() is at
    std::deque<Flush> flushes_;
    uint64_t sequence_ = 0; // of the newest copy
    uint64_t in_flight_ = 0;
    stats::Counts counts_;
};

} // namespace gdr::copy
