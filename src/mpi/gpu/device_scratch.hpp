// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// GPU memory for packed data and for parts of results. It is kept for the next call, also because
// it is registered with the HCA by then.
#pragma once

#include "mpi/gpu/thread_stream.hpp"

#include <cstddef>

namespace gdr::mpi {

// A process keeps at most this much unused scratch.
inline constexpr size_t kKeptScratchBytes = size_t{256} << 20;

class DeviceScratch {
  public:
    DeviceScratch() = default;

    // At least `length` bytes in the primary context of the stream's GPU. Throws cuda::Error.
    DeviceScratch(const cuda::Driver& driver, const ThreadStream& stream, size_t length);

    DeviceScratch(DeviceScratch&& other) noexcept;
    DeviceScratch& operator=(DeviceScratch&& other) noexcept;

    // Any thread. No work may be under way on it.
    ~DeviceScratch();

    char* data() const { return memory_.data; }

    // Leaks the memory: something that cannot be stopped still uses it.
    void forget() { memory_ = {}; }

  private:
    friend class KeptScratch;

    struct Memory {
        CUdevice device = -1;
        unsigned long long context_id = 0; // the memory ends with this context
        char* data = nullptr;
        size_t length = 0; // a power of two
    };

    Memory memory_;
};

} // namespace gdr::mpi
