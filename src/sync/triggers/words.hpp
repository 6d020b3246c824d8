// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The words by which streams, graphs and kernels talk with the library, in host memory that the GPU
// can access. Only the registration needs CUDA. The memory is never unregistered, since that would
// wait for every stream that waits.
#pragma once

#include "cuda/driver.hpp"

#include <atomic>
#include <cstdint>

namespace gdr::sync {

// The words of one stream. Both only grow, even when the next stream takes them over, so that a
// reader never sees a word go back. Each has its own cache line.
struct StreamWords {
    alignas(64) std::atomic<uint64_t> reached;  // point of the stream; the GPU writes
    alignas(64) std::atomic<uint64_t> released; // number of the wait that is over; the GPU reads
};

// A gate in a graph or a kernel. These are the same at every launch, so they cannot count. The GPU
// waits until the gate may be passed and closes it by a write to its first half; the library opens
// it. An abandoned gate stays passable, whatever the GPU writes. The same word carries the status
// of the operations before it to kernels (ugdr_device.cuh).
struct Gate {
    static constexpr uint64_t kPassable = (uint64_t{1} << 32) | 1; // either of these bits

    std::atomic<uint32_t> open; // 0: closed
    std::atomic<uint32_t> abandoned;

    // The value of a half that may be passed.
    static constexpr uint32_t passable(int status)
    {
        return static_cast<uint32_t>(status) << 1 | 1;
    }

    void reopen(int status) { open.store(passable(status), std::memory_order_release); }
    void abandon(int status) { abandoned.store(passable(status), std::memory_order_release); }
};
static_assert(sizeof(Gate) == sizeof(uint64_t));

// The gates of a node: passing the first triggers its operations, passing the second means that
// they are complete. Kernels, and nodes that do both in one, use the first for both: closing it
// triggers the operations, and the GPU then waits until it is open again.
struct Gates {
    alignas(64) Gate trigger;
    alignas(64) Gate done;
};

constexpr size_t kSecondWord = 64; // its offset in both structures

// Any other word.
struct Word {
    std::atomic<uint64_t> value;
};

// As kernels have it.
template <typename Value>
Value* on_device(CUdeviceptr address)
{
    return reinterpret_cast<Value*>(static_cast<uintptr_t>(address));
}

template <typename Words>
struct Mapped {
    Words* host = nullptr;
    CUdeviceptr device = 0;
    unsigned long long context_id = 0; // context handles are reused

    CUdeviceptr first() const { return device; }
    CUdeviceptr second() const
    {
        static_assert(sizeof(Words) == 2 * kSecondWord);
        return device + kSecondWord;
    }
};

// Takes `count` words in a row for this context, which is current. Words are as their last user
// left them; gates are closed. Throws cuda::Error, std::bad_alloc. Any thread. Words: StreamWords,
// Gates, Word, Entry or Completed.
template <typename Words>
Mapped<Words> take_words(const cuda::Driver& driver, CUcontext context, size_t count = 1);

// Nobody will write to them any more. Any thread, CUDA's included. The context may be gone.
template <typename Words>
void give_words_back(CUcontext context, const Mapped<Words>& words, size_t count = 1);

// Writes to GPU memory while kernels run; the context is current. Throws cuda::Error.
void write_gpu_memory(const cuda::Driver& driver, CUdeviceptr to, const void* from, size_t bytes);

// Zeroed 32-bit counters in GPU memory.
struct Counters {
    CUdeviceptr device = 0;
    unsigned long long context_id = 0;
};

// Takes `count` of them; the context is current. They are never freed, since that would wait for
// streams that wait. Throws cuda::Error. Any thread.
Counters take_counters(const cuda::Driver& driver, CUcontext context, size_t count);
void give_counters_back(CUcontext context, const Counters& counters, size_t count);

// What was taken and is given back at the end, unless it is to be kept: a GPU may still write to
// it. There may be none.
template <typename Pieces, Pieces (*take)(const cuda::Driver&, CUcontext, size_t),
          void (*give_back)(CUcontext, const Pieces&, size_t)>
struct TakenPieces {
    TakenPieces(const cuda::Driver& driver, CUcontext of, size_t number)
        : context(of), count(number), words(number > 0 ? take(driver, of, number) : Pieces{})
    {
    }
    TakenPieces(const TakenPieces&) = delete;
    TakenPieces& operator=(const TakenPieces&) = delete;
    ~TakenPieces()
    {
        if (count > 0 && !kept_) {
            give_back(context, words, count);
        }
    }
    void keep() { kept_ = true; }

    const CUcontext context;
    const size_t count;
    const Pieces words;

  private:
    bool kept_ = false;
};

template <typename Words>
using Taken = TakenPieces<Mapped<Words>, take_words<Words>, give_words_back<Words>>;
using TakenCounters = TakenPieces<Counters, take_counters, give_counters_back>;

} // namespace gdr::sync
