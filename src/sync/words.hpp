// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The words by which streams, graphs and kernels speak with the library: in host memory that the
// GPU reaches. Registering it is all that needs CUDA; it is never unregistered, since that would
// wait for every stream that waits.
#pragma once

#include "cuda/driver.hpp"

#include <atomic>
#include <cstdint>

namespace gdr::sync {

// Of one stream. Both only grow, also from one stream that uses them to the next, so that a word is
// never set back for who still looks at it. Each has a cache line of its own.
struct StreamWords {
    alignas(64) std::atomic<uint64_t> reached;  // point of the stream; the GPU writes
    alignas(64) std::atomic<uint64_t> released; // number of the wait that is over; the GPU reads
};

// A gate in a graph or a kernel, which are the same at every launch and cannot count. The GPU waits
// until it may pass, and closes it by a write to its first half; the library opens it. An abandoned
// one stays passable, whatever the GPU writes. Kernels read what the operations before it ended
// with in the same word (ugdr_device.cuh).
struct Gate {
    static constexpr uint64_t kPassable = (uint64_t{1} << 32) | 1; // either of these bits

    std::atomic<uint32_t> open; // 0: closed
    std::atomic<uint32_t> abandoned;

    // A half that may be passed.
    static constexpr uint32_t passable(int status)
    {
        return static_cast<uint32_t>(status) << 1 | 1;
    }

    void reopen(int status) { open.store(passable(status), std::memory_order_release); }
    void abandon(int status) { abandoned.store(passable(status), std::memory_order_release); }
};
static_assert(sizeof(Gate) == sizeof(uint64_t));

// Of a node: who passes the first triggers its operations, who passes the second has waited for
// some. Where both are one, and for kernels, the first does for both: who closes it triggers, and
// waits until it is open again.
struct Gates {
    alignas(64) Gate trigger;
    alignas(64) Gate done;
};

constexpr size_t kSecondWord = 64; // where it is in both

template <typename Words>
struct Mapped {
    Words* host = nullptr;
    CUdeviceptr device = 0;
    unsigned long long context_id = 0; // of the context: handles are used again

    CUdeviceptr first() const { return device; }
    CUdeviceptr second() const { return device + kSecondWord; }
};

// Words for this context, which is current, `count` behind one another: those of a stream as they
// were left, gates closed. Throws cuda::Error, std::bad_alloc. Any thread. Words: StreamWords or
// Gates.
template <typename Words>
Mapped<Words> take_words(const cuda::Driver& driver, CUcontext context, size_t count = 1);

// Nobody will write to them any more. Any thread, one of CUDA's included. The context may be gone.
template <typename Words>
void give_words_back(CUcontext context, const Mapped<Words>& words, size_t count = 1);

// Zeros of 32 bits in the memory of a GPU.
struct Counters {
    CUdeviceptr device = 0;
    unsigned long long context_id = 0;
};

// `count` of them, the context being current: they are not freed, either, since that waits for
// streams that wait. Throws cuda::Error. Any thread.
Counters take_counters(const cuda::Driver& driver, CUcontext context, size_t count);
void give_counters_back(CUcontext context, const Counters& counters, size_t count);

} // namespace gdr::sync
