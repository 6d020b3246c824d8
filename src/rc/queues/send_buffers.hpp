// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The pool of registered buffers for buffered (bcopy) operations of an interface. It has a fixed
// size and is made at open: taking and returning a buffer is a pop or push of a free list.
#pragma once

#include "rc/queues/registered_memory.hpp"

#include <algorithm>
#include <memory>

namespace gdr::rc {

// Worker thread only.
class SendBuffers {
  public:
    // count buffers of size bytes each, aligned to cache lines; count is halved until they can be
    // registered. Throws verbs::Error.
    SendBuffers(ibv_pd* pd, unsigned count, size_t size)
        : memory_(RegisteredMemory::for_as_many(pd, stride(size), std::min(count, kFewest), &count,
                                                "send buffers", "UCX_GDR_RC_TX_BUFFERS")),
          stride_(stride(size))
    {
        free_ = std::make_unique<std::byte*[]>(count);
        top_ = free_.get();
        half_ = top_ + count / 2;
        for (uint32_t i = count; i-- > 0;) {
            put(numbered(i));
        }
    }

    // Requires any().
    std::byte* take() { return *--top_; }

    void put(std::byte* buffer) { *top_++ = buffer; }

    // A buffer's number identifies it, like its address.
    uint32_t number_of(const std::byte* buffer) const
    {
        return static_cast<uint32_t>(static_cast<size_t>(buffer - memory_.data()) / stride_);
    }
    std::byte* numbered(uint32_t number) { return memory_.data() + number * stride_; }

    bool any() const { return top_ != free_.get(); }
    size_t available() const { return static_cast<size_t>(top_ - free_.get()); }
    bool scarce() const { return top_ < half_; }
    uint32_t lkey() const { return memory_.lkey(); }

  private:
    static constexpr unsigned kFewest = 32;
    static constexpr size_t kLine = 64;
    static size_t stride(size_t size) { return (size + kLine - 1) / kLine * kLine; }

    RegisteredMemory memory_;
    size_t stride_;
    std::unique_ptr<std::byte*[]> free_; // the last returned is taken first
    std::byte** top_ = nullptr;          // the place after the last
    std::byte** half_ = nullptr;         // top_ when half of them are free
};

} // namespace gdr::rc
