// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Elements in GPU memory that are not contiguous, and the kernels that gather and scatter them: one
// launch on the calling thread's stream, whatever their number.
#pragma once

#include "mpi/gpu/gpu_kernels.hpp"

#include <memory>
#include <optional>

namespace gdr::mpi {

class GpuPacking {
  public:
    // Whether kernels bring the elements to host memory faster than copies of rows.
    static bool pays(const Elements& elements);

    // Nothing if it is not possible. elements: all on that GPU, relative to the buffer's address.
    // Throws cuda::Error, std::bad_alloc.
    static std::optional<GpuPacking> make(const cuda::Driver& driver, const cuda::Pointer& memory,
                                          void* buffer, const Elements& elements);

    uint64_t bytes() const { return count_ * packing_->layout().size(); }

    // All bytes, or the first ones; complete on return. Throw cuda::Error, also if the buffer has
    // been freed since (a kernel that wrote to it would end the context's work). packed: in the
    // GPU's memory, or in mapped host memory. Writing to host memory directly is faster than
    // packing on the GPU and copying.
    void pack(void* packed) const;
    void unpack(const void* packed) const { unpack(packed, bytes()); }
    void unpack(const void* packed, uint64_t first) const;

  private:
    GpuPacking(const cuda::Driver& driver, CUdevice device,
               std::shared_ptr<const kernels::Packing> packing, void* buffer,
               const Elements& elements);

    void check_buffer(const ThreadStream& stream) const;

    template <typename Launch>
    void run(Launch launch) const;

    const cuda::Driver* driver_;
    CUdevice device_;
    std::shared_ptr<const kernels::Packing> packing_;
    void* buffer_;
    uint64_t count_;
    uintptr_t begin_, end_; // of the first byte; after the last
};

} // namespace gdr::mpi
