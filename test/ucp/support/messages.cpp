// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Buffers of messages whose every byte is known.
#include "messages.hpp"

#include <algorithm>
#include <cstring>

#include "failure.hpp"

namespace ucptest {
namespace {

constexpr size_t kGuard = 64;
constexpr uint8_t kGuardByte = 0xa5;

// The finaliser of splitmix64: every input bit changes about half of the output bits.
constexpr uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}

constexpr uint64_t kStep = 0x9e3779b97f4a7c15ull;

} // namespace

uint64_t seed_of(std::initializer_list<uint64_t> parts)
{
    uint64_t seed = kStep;
    for (uint64_t part : parts) {
        seed = mix(seed + kStep + part);
    }
    return seed;
}

std::vector<uint8_t> pattern(uint64_t seed, size_t index, size_t size)
{
    std::vector<uint8_t> bytes(size);
    const uint64_t start = seed_of({seed, index});
    size_t offset = 0;
    for (; offset + sizeof(uint64_t) <= size; offset += sizeof(uint64_t)) {
        const uint64_t word = mix(start + offset * kStep);
        std::memcpy(bytes.data() + offset, &word, sizeof(word));
    }
    const uint64_t word = mix(start + offset * kStep);
    if (offset < size) {
        std::memcpy(bytes.data() + offset, &word, size - offset);
    }
    return bytes;
}

Messages::Messages(MemoryKind kind, size_t size, size_t count, bool scattered)
    : size_(size), segments_(lay_out(size, count, scattered)), memory_(kind, span(segments_))
{
    if (!scattered) {
        return;
    }
    for (const auto& message : segments_) {
        std::vector<ucp_dt_iov_t> iov;
        for (const Segment& segment : message) {
            iov.push_back({memory_.address(segment.offset), segment.length});
        }
        iov_.push_back(std::move(iov));
    }
}

std::vector<std::vector<Messages::Segment>> Messages::lay_out(size_t size, size_t count,
                                                              bool scattered)
{
    std::vector<std::vector<Segment>> messages;
    size_t offset = kGuard;
    for (size_t index = 0; index < count; ++index) {
        std::vector<Segment> segments;
        if (!scattered) {
            segments.push_back({offset + index % 8, size});
            offset += index % 8 + size + kGuard;
            offset = (offset + 7) / 8 * 8;
        } else {
            // A few segments for even messages, more than most devices gather at once for odd ones.
            const size_t wanted = index % 2 == 0 ? 5 : 37;
            const size_t pieces = std::clamp<size_t>(size, 1, wanted);
            size_t done = 0;
            for (size_t piece = 0; piece < pieces; ++piece) {
                const size_t rest = pieces - piece;
                // Uneven: alternately about half and one and a half of an even share.
                size_t length = (size - done) / rest;
                if (rest > 1 && length > 3) {
                    length = piece % 2 == 0 ? length / 2 + 1 : length + length / 2;
                }
                segments.push_back({offset, length});
                done += length;
                offset += length + 3 + (piece * 5) % 17;
            }
            offset += kGuard;
        }
        messages.push_back(std::move(segments));
    }
    return messages;
}

size_t Messages::span(const std::vector<std::vector<Segment>>& segments)
{
    const Segment& last = segments.back().back();
    return last.offset + last.length + kGuard;
}

View Messages::view(size_t index) const
{
    if (iov_.empty()) {
        return {address(index), size_, ucp_dt_make_contig(1), ucs_type(kind())};
    }
    auto& iov = iov_.at(index);
    return {const_cast<ucp_dt_iov_t*>(iov.data()), iov.size(), UCP_DATATYPE_IOV, ucs_type(kind())};
}

void* Messages::address(size_t index) const
{
    return memory_.address(segments_.at(index).front().offset);
}

std::vector<uint8_t> Messages::image(uint64_t seed) const
{
    std::vector<uint8_t> bytes(memory_.size(), kGuardByte);
    for (size_t index = 0; index < segments_.size(); ++index) {
        const auto message = pattern(seed, index, size_);
        const uint8_t* source = message.data();
        for (const Segment& segment : segments_[index]) {
            std::copy_n(source, segment.length, bytes.data() + segment.offset);
            source += segment.length;
        }
    }
    return bytes;
}

void Messages::fill(uint64_t seed)
{
    const auto bytes = image(seed);
    memory_.store(0, bytes.data(), bytes.size());
}

void Messages::store(size_t index, const void* data)
{
    const char* source = static_cast<const char*>(data);
    for (const Segment& segment : segments_.at(index)) {
        if (segment.length > 0) {
            memory_.store(segment.offset, source, segment.length);
        }
        source += segment.length;
    }
}

std::string Messages::place(size_t offset) const
{
    for (size_t index = 0; index < segments_.size(); ++index) {
        size_t before = 0;
        for (size_t piece = 0; piece < segments_[index].size(); ++piece) {
            const Segment& segment = segments_[index][piece];
            if (offset < segment.offset) {
                return format("guard before message %zu segment %zu, %zu bytes before it", index,
                              piece, segment.offset - offset);
            }
            if (offset < segment.offset + segment.length) {
                return format("message %zu byte %zu (segment %zu)", index,
                              before + offset - segment.offset, piece);
            }
            before += segment.length;
        }
    }
    const Segment& last = segments_.back().back();
    return format("guard after the last message, %zu bytes after it",
                  offset - last.offset - last.length);
}

std::optional<std::string> Messages::difference(uint64_t seed) const
{
    const auto expected = image(seed);
    std::vector<uint8_t> found(expected.size());
    memory_.load(found.data(), 0, found.size());
    if (found == expected) {
        return std::nullopt;
    }
    const auto [wrong, right] = std::mismatch(found.begin(), found.end(), expected.begin());
    size_t differing = 0;
    for (size_t offset = 0; offset < found.size(); ++offset) {
        differing += found[offset] != expected[offset];
    }
    return format("%s: 0x%02x instead of 0x%02x, %zu bytes differ",
                  place(static_cast<size_t>(wrong - found.begin())).c_str(), *wrong, *right,
                  differing);
}

} // namespace ucptest
