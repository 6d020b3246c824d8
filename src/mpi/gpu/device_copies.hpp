// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Copies of rows, and of footprints, between a GPU's memory and host memory, on the calling
// thread's stream. Any thread.
#pragma once

#include "cuda/relaxed_capture.hpp"
#include "mpi/gpu/thread_stream.hpp"
#include "mpi/library/footprint.hpp"

#include <cstddef>
#include <optional>

namespace gdr::mpi {

using streams::Direction;

// How many copies of CUDA's the elements are, merged where they can be.
size_t number_of_copies(const Elements& elements);

struct Rows {
    char* first;
    ptrdiff_t stride;
};

// Copies that are under way together: MPI is not to be called with any of them before wait(), nor
// asked anything between issue() and leave(). To be destroyed by the thread that made it; none is
// under way any more then.
class RowCopies {
  public:
    RowCopies(const cuda::Driver& driver, Direction direction)
        : driver_(driver), direction_(direction)
    {
    }
    RowCopies(const RowCopies&) = delete;
    RowCopies& operator=(const RowCopies&) = delete;
    ~RowCopies();

    Direction direction() const { return direction_; }

    // Waits for those on another GPU. Throw cuda::Error.
    void issue(CUdevice device, Rows on_device, Rows on_host, size_t length, size_t rows);

    // Both as addresses that offset 0 has, or would have, there.
    void issue(CUdevice device, const Footprint& footprint, void* on_device, void* on_host);

    // In host memory one row after the other.
    void issue_packed(CUdevice device, const Run& run, void* on_device, void* packed);

    // Returns when the bytes are there. Throws cuda::Error.
    void wait();

    // The thread's capture mode and context are again as they were before issue(): the
    // application's code may run. What is under way goes on.
    void leave() { scope_.reset(); }

  private:
    struct Scope {
        Scope(const cuda::Driver& driver, CUdevice device) : relaxed(driver), stream(driver, device)
        {
        }
        const cuda::RelaxedCapture relaxed; // once for several copies
        const ThreadStream stream;
    };

    const ThreadStream& enter(CUdevice device);

    const cuda::Driver& driver_;
    const Direction direction_;
    CUdevice device_ = -1;       // the latest
    size_t bytes_ = 0;           // under way there
    std::optional<Scope> scope_; // there
};

} // namespace gdr::mpi
