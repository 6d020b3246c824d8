// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A buffer of messages every byte of which is known: each message has a pattern of its own, and
// everything between and around the messages is guard. A check compares the whole allocation with
// what it must hold, so swapped, shifted, stale, missing and stray bytes are all found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ucp/api/ucp.h>

#include "memory.hpp"

namespace ucptest {

// A number that depends on each of its parts: the seed of a pattern.
uint64_t seed_of(std::initializer_list<uint64_t> parts);

// The bytes of a message; the same for the same seed and index.
std::vector<uint8_t> pattern(uint64_t seed, size_t index, size_t size);

// What UCP is given for one message.
struct View {
    void* buffer; // the bytes, or the ucp_dt_iov_t array
    size_t count; // bytes, or elements of the array
    ucp_datatype_t datatype;
    ucs_memory_type_t memory_type;
};

class Messages {
  public:
    // count messages of size bytes; contiguous ones start at every alignment modulo 8, scattered
    // ones consist of several segments of different lengths at odd addresses.
    Messages(MemoryKind kind, size_t size, size_t count, bool scattered);

    MemoryKind kind() const { return memory_.kind(); }
    size_t size() const { return size_; }
    size_t count() const { return segments_.size(); }
    Memory& memory() { return memory_; }

    View view(size_t index) const;
    void* address(size_t index) const; // of the first byte

    // Writes guards and the patterns of seed to the whole allocation.
    void fill(uint64_t seed);
    // Writes one message's bytes, as a receiver does with data that UCP hands to it.
    void store(size_t index, const void* data);

    // Compares the whole allocation with guards and the patterns of seed; the text of the first
    // difference, or nothing.
    std::optional<std::string> difference(uint64_t seed) const;

  private:
    struct Segment {
        size_t offset;
        size_t length;
    };

    static std::vector<std::vector<Segment>> lay_out(size_t size, size_t count, bool scattered);
    static size_t span(const std::vector<std::vector<Segment>>& segments);
    std::vector<uint8_t> image(uint64_t seed) const;
    std::string place(size_t offset) const;

    size_t size_;
    std::vector<std::vector<Segment>> segments_; // by message
    Memory memory_;
    std::vector<std::vector<ucp_dt_iov_t>> iov_; // by message
};

} // namespace ucptest
