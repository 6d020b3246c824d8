// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Copies of rows, and of footprints, between GPU memory and host memory, on the calling thread's
// stream. Any thread.
#pragma once

#include "cuda/relaxed_capture.hpp"
#include "mpi/gpu/thread_stream.hpp"
#include "mpi/interface/footprint.hpp"

#include <cstddef>
#include <optional>

namespace gdr::mpi {

using streams::Direction;

// How many CUDA copies the elements take, after merging.
size_t number_of_copies(const Elements& elements);

struct Rows {
    char* first;
    ptrdiff_t stride;
};

// Copies that are under way together. Before wait(), do not call MPI with any of their memory;
// between issue() and leave(), do not query MPI at all. The thread that made it destroys it, which
// waits for the copies.
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

    // Waits first for copies on another GPU. Throw cuda::Error.
    void issue(CUdevice device, Rows on_device, Rows on_host, size_t length, size_t rows);

    // Both addresses are those that offset 0 has, or would have, there.
    void issue(CUdevice device, const Footprint& footprint, void* on_device, void* on_host);

    // In host memory the rows are contiguous.
    void issue_packed(CUdevice device, const Run& run, void* on_device, void* packed);

    // Returns when the bytes are there. Throws cuda::Error.
    void wait();

    // Restores the thread's capture mode and context as before issue(), so that code of the
    // application may run. Copies continue.
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
