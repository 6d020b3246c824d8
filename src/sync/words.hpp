// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The words by which a stream and the library speak to each other: in host memory that the GPU
// reaches. Registering it is all that needs CUDA; it is never unregistered, since that would wait
// for every stream that waits.
#pragma once

#include "cuda/driver.hpp"

#include <atomic>
#include <cstdint>

namespace gdr::sync {

// Of one stream. Both only grow, also from one stream that uses them to the next, so that a word is
// never set back for who still looks at it. Each has a cache line of its own.
struct Words {
    alignas(64) std::atomic<uint64_t> reached;  // point of the stream; the GPU writes
    alignas(64) std::atomic<uint64_t> released; // number of the wait that is over; the GPU reads
};

struct MappedWords {
    Words* host = nullptr;
    CUdeviceptr device = 0;

    CUdeviceptr reached() const { return device; }
    CUdeviceptr released() const { return device + 64; }
};
static_assert(sizeof(Words) == 128);

// Words for a stream of this context, which is current. Throws cuda::Error. Any thread.
MappedWords take_words(const cuda::Driver& driver, CUcontext context);

// Nobody will write to them any more.
void give_words_back(CUcontext context, const MappedWords& words);

} // namespace gdr::sync
