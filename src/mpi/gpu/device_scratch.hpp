// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory of a GPU for packed data, and for parts of results: kept for the next call, also because
// the HCA has it registered by then.
#pragma once

#include "mpi/gpu/thread_stream.hpp"

#include <cstddef>

namespace gdr::mpi {

// At most so much is kept in a process while nobody uses it.
inline constexpr size_t kKeptScratchBytes = size_t{256} << 20;

class DeviceScratch {
  public:
    DeviceScratch() = default;

    // At least so many bytes in the primary context of the stream's GPU. Throws cuda::Error.
    DeviceScratch(const cuda::Driver& driver, const ThreadStream& stream, size_t length);

    DeviceScratch(DeviceScratch&& other) noexcept;
    DeviceScratch& operator=(DeviceScratch&& other) noexcept;

    // Any thread. No work may be under way on it.
    ~DeviceScratch();

    char* data() const { return memory_.data; }

    // It is not given back: something that cannot be stopped still uses it.
    void forget() { memory_ = {}; }

  private:
    friend class KeptScratch;

    struct Memory {
        CUdevice device = -1;
        unsigned long long context_id = 0; // with whose end it ends
        char* data = nullptr;
        size_t length = 0; // a power of two
    };

    Memory memory_;
};

} // namespace gdr::mpi
