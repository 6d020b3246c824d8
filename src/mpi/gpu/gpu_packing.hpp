// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Elements in a GPU's memory, whose bytes are not in one piece, and the kernels that gather and
// scatter them: on the calling thread's stream, one launch for any number of them.
#pragma once

#include "mpi/gpu/gpu_kernels.hpp"

#include <memory>
#include <optional>

namespace gdr::mpi {

class GpuPacking {
  public:
    // Nothing where it does not pay or is not possible. elements: all on that GPU, relative to the
    // buffer's address. Throws cuda::Error, std::bad_alloc.
    static std::optional<GpuPacking> make(const cuda::Driver& driver, const cuda::Pointer& memory,
                                          void* buffer, const Elements& elements);

    CUdevice device() const { return device_; }
    uint64_t element_bytes() const { return packing_->layout().size(); }
    uint64_t bytes() const { return count_ * element_bytes(); }

    // Return when the bytes are there. Throw cuda::Error, also where the buffer has been freed
    // since (a kernel that wrote to it would end the context's work). packed: bytes() of the GPU's
    // memory, or of the host's, pinned or not.
    void pack(void* packed) const;
    void unpack(const void* packed) const;
    void pack_to_host(char* packed) const;
    void unpack_from_host(const char* packed) const;

  private:
    GpuPacking(const cuda::Driver& driver, CUdevice device,
               std::shared_ptr<const kernels::Packing> packing, void* buffer,
               const Elements& elements);

    void check_buffer(const ThreadStream& stream) const;

    template <typename Move>
    void move_pieces(Move move) const;

    const cuda::Driver* driver_;
    CUdevice device_;
    std::shared_ptr<const kernels::Packing> packing_;
    void* buffer_;
    uint64_t count_;
    uintptr_t begin_, end_; // of the first byte, behind the last
};

} // namespace gdr::mpi
