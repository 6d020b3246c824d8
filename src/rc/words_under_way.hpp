// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Emulated atomics under way. Each is made of compare-and-swaps of the aligned 64 bits around its
// operand. Operations of one endpoint on the same word would make each other fail, so only one
// compare-and-swap is under way for a word, and operations that come meanwhile share the next one.
#pragma once

#include "tables/hash.hpp"

extern "C" {
#include <uct/api/uct.h>
}

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gdr::rc {

struct Endpoint;

// The operation that UCT requests.
struct Atomic {
    uct_atomic_op_t operation;
    uint64_t operand;
    uint64_t compare; // of a compare-and-swap
    unsigned size;    // bytes, 4 or 8
    uint64_t remote_addr;
    uct_rkey_t rkey;
    void* result;                 // NULL: not wanted
    uct_completion_t* completion; // may be NULL

    bool awaited() const { return result != nullptr || completion != nullptr; }
};

// 64 bits of a peer's memory, accessed through one endpoint.
struct RemoteWord {
    const Endpoint* ep;
    uct_rkey_t rkey;
    uint64_t address;

    RemoteWord(const Endpoint& endpoint, const Atomic& atomic)
        : ep(&endpoint), rkey(atomic.rkey), address(atomic.remote_addr & ~(sizeof(uint64_t) - 1))
    {
    }
    bool operator==(const RemoteWord&) const = default;
};

// One operation. Lives in a send buffer.
struct ReadModifyWrite {
    Atomic atomic;
    unsigned flushes; // of the endpoint, before this operation
    RemoteWord word;
    ReadModifyWrite* later = nullptr; // the next one on the word
    bool waited = false;              // came after others, and took a credit of its endpoint

    struct { // valid in the first one on the word:
        ReadModifyWrite* last;
        ReadModifyWrite* covered; // last operation that the current work request serves
        bool swap_posted;         // whether that is a compare-and-swap, else a READ
        uint64_t expected;        // by the compare-and-swap
        uint64_t found;           // written by the HCA
        ReadModifyWrite* other;   // first one on another word
    } head{};
};

// The words with operations under way, for all endpoints of an interface. Worker thread only.
class WordsUnderWay {
  public:
    explicit WordsUnderWay(size_t most) : firsts_(std::bit_ceil(most)) {}

    // The first operation on the word; if there is none, the NULL link to store it in.
    ReadModifyWrite*& find(const RemoteWord& word)
    {
        uint64_t hash =
            tables::fibonacci_hash<32>(word.address / sizeof(uint64_t) ^ word.rkey << 40 ^
                                       reinterpret_cast<uintptr_t>(word.ep));
        ReadModifyWrite** link = &firsts_[hash & (firsts_.size() - 1)];
        while (*link != nullptr && (*link)->word != word) {
            link = &(*link)->head.other;
        }
        return *link;
    }

  private:
    std::vector<ReadModifyWrite*> firsts_;
};

} // namespace gdr::rc
