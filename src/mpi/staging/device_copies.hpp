// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Copies of rows, and of footprints, between a GPU's memory and host memory, on the calling
// thread's stream. Any thread.
#pragma once

#include "cuda/relaxed_capture.hpp"
#include "mpi/gpu/thread_stream.hpp"
#include "mpi/library/footprint.hpp"

namespace gdr::mpi {

enum class Direction { from_device, to_device };

struct Rows {
    char* first;
    ptrdiff_t stride;
};

// To be destroyed by the thread that made it, after wait(), or a failure.
class RowCopies {
  public:
    RowCopies(const cuda::Driver& driver, CUdevice device)
        : relaxed_(driver), stream_(driver, device), driver_(cuda::plain_driver())
    {
    }

    // Throws cuda::Error, when none is under way any more.
    void issue(Rows on_device, Rows on_host, size_t length, size_t rows, Direction direction);

    // Returns when the bytes are there. Throws cuda::Error.
    void wait()
    {
        cuda::check(driver_.cuStreamSynchronize(stream_.handle()), "cuStreamSynchronize");
    }

  private:
    const cuda::RelaxedCapture relaxed_; // once for all of them
    const ThreadStream stream_;
    const cuda::Driver& driver_;
};

// Both as addresses that offset 0 has, or would have, there. Returns when the bytes are there.
// Throws cuda::Error.
void copy_now(const cuda::Driver& driver, CUdevice device, const Footprint& footprint,
              void* on_device, void* on_host, Direction direction);

} // namespace gdr::mpi
