// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The pool of registered buffers that buffered (bcopy) operations of an interface pass through.
// Of fixed size, made at open: taking and returning a buffer is a push or pop of a free list.
#pragma once

#include "rc/registered_memory.hpp"

#include <algorithm>
#include <vector>

namespace gdr::rc {

// Worker thread only.
class SendBuffers {
  public:
    // count buffers of size bytes each, aligned to cache lines; halved until they can be
    // registered. Throws verbs::Error.
    SendBuffers(ibv_pd* pd, unsigned count, size_t size)
        : memory_(RegisteredMemory::for_as_many(pd, stride(size), std::min(count, kFewest), &count,
                                                "send buffers", "UCX_GDR_RC_TX_BUFFERS"))
    {
        free_.reserve(count);
        for (size_t i = count; i-- > 0;) {
            free_.push_back(memory_.data() + i * stride(size));
        }
    }

    // nullptr: all are in use.
    std::byte* take()
    {
        if (free_.empty()) {
            return nullptr;
        }
        std::byte* buffer = free_.back();
        free_.pop_back();
        return buffer;
    }

    void put(std::byte* buffer) { free_.push_back(buffer); } // never grows: reserved for all

    bool any() const { return !free_.empty(); }
    size_t available() const { return free_.size(); }
    bool scarce() const { return free_.size() < free_.capacity() / 2; }
    uint32_t lkey() const { return memory_.lkey(); }

  private:
    static constexpr unsigned kFewest = 32;
    static constexpr size_t kLine = 64;
    static size_t stride(size_t size) { return (size + kLine - 1) / kLine * kLine; }

    RegisteredMemory memory_;
    std::vector<std::byte*> free_;
};

} // namespace gdr::rc
