// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Packing: words of 1 to 16 bytes are copied from their places in a layout to consecutive
// addresses, or back. Each thread copies one word, or some. Neighbouring threads have neighbouring
// words of the packed side.
#pragma once

#include "kernels/pack_arguments.hpp"

namespace gdr::kernels {

using Word1 = uint8_t;
using Word2 = uint16_t;
using Word4 = uint32_t;
using Word8 = uint64_t;
typedef uint32_t Word16 __attribute__((vector_size(16)));

GDR_DEVICE uint64_t address_of_word(const StridedCopy& copy, uint32_t word)
{
    uint64_t address = copy.memory;
    uint32_t rest = word;
    const uint32_t outermost = copy.levels - 1;
    for (uint32_t i = 0; i < outermost; ++i) {
        const StridedCopy::Level& level = copy.level[i];
        const uint32_t sum = rest + level.start;
        rest = quotient(sum, level.count);
        const uint32_t index = sum - rest * level.count.divisor;
        address += static_cast<uint64_t>(int64_t{index} * level.stride);
    }
    return address + static_cast<uint64_t>(int64_t{rest} * copy.level[outermost].stride);
}

template <typename Word>
GDR_DEVICE uint64_t address_of_word(const ListCopy& copy, uint32_t word)
{
    uint64_t address = copy.memory;
    uint64_t within = copy.start + word;
    if (copy.element.divisor != 0) {
        const auto sum = static_cast<uint32_t>(within);
        const uint32_t element = quotient(sum, copy.element);
        within = sum - element * copy.element.divisor;
        address += static_cast<uint64_t>(int64_t{element} * copy.extent);
    }
    const uint64_t byte = within * sizeof(Word);
    const uint64_t hint = copy.hints + (byte >> copy.hint_shift) * sizeof(uint32_t);
    auto low = load<uint32_t>(hint);
    auto high = load<uint32_t>(hint + sizeof(uint32_t));
    while (low < high) { // finds the last block that begins at the byte or before it
        const uint32_t middle = (low + high + 1) / 2;
        if (load<uint64_t>(copy.positions + uint64_t{middle} * 8) <= byte) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    const auto offset = load<int64_t>(copy.offsets + uint64_t{low} * 8);
    const auto position = load<uint64_t>(copy.positions + uint64_t{low} * 8);
    return address + static_cast<uint64_t>(offset) + (byte - position);
}

template <typename Word>
GDR_DEVICE uint64_t address_in_memory(const StridedCopy& copy, uint32_t word)
{
    return address_of_word(copy, word);
}
template <typename Word>
GDR_DEVICE uint64_t address_in_memory(const ListCopy& copy, uint32_t word)
{
    return address_of_word<Word>(copy, word);
}

template <typename Word, bool to_packed, typename Copy>
GDR_DEVICE void copy_words(const Copy& copy, Thread thread)
{
    for (uint64_t first = thread.index; first < copy.words; first += thread.count * kWordsAtOnce) {
        Word words[kWordsAtOnce];
        uint64_t to[kWordsAtOnce];
        GDR_UNROLL
        for (uint32_t k = 0; k < kWordsAtOnce; ++k) {
            const uint64_t i = first + k * thread.count;
            if (i < copy.words) {
                const uint64_t memory = address_in_memory<Word>(copy, static_cast<uint32_t>(i));
                const uint64_t packed = copy.packed + i * sizeof(Word);
                to[k] = to_packed ? packed : memory;
                words[k] = load<Word>(to_packed ? memory : packed);
            }
        }
        GDR_UNROLL
        for (uint32_t k = 0; k < kWordsAtOnce; ++k) {
            if (first + k * thread.count < copy.words) {
                store<Word>(to[k], words[k]);
            }
        }
    }
}

} // namespace gdr::kernels

#define GDR_PACK_KERNELS(bytes)                                                                    \
    GDR_KERNEL(gdr_pack_strided_##bytes, (gdr::kernels::copy_words<Word##bytes, true>),            \
               StridedCopy)                                                                        \
    GDR_KERNEL(gdr_unpack_strided_##bytes, (gdr::kernels::copy_words<Word##bytes, false>),         \
               StridedCopy)                                                                        \
    GDR_KERNEL(gdr_pack_list_##bytes, (gdr::kernels::copy_words<Word##bytes, true>), ListCopy)     \
    GDR_KERNEL(gdr_unpack_list_##bytes, (gdr::kernels::copy_words<Word##bytes, false>), ListCopy)

namespace gdr::kernels {
GDR_PACK_KERNELS(1)
GDR_PACK_KERNELS(2)
GDR_PACK_KERNELS(4)
GDR_PACK_KERNELS(8)
GDR_PACK_KERNELS(16)
} // namespace gdr::kernels
