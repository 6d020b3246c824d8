// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Layouts are normalised: equal memory has an equal description.
#include "kernels/layout.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace gdr::kernels {

namespace {

bool adjoins(const Block& one, const Block& next)
{
    return one.offset + static_cast<int64_t>(one.length) == next.offset;
}

std::vector<Block> merge(std::span<const Block> blocks)
{
    std::vector<Block> merged;
    for (const Block& block : blocks) {
        if (block.length == 0) {
            continue;
        }
        if (!merged.empty() && adjoins(merged.back(), block)) {
            merged.back().length += block.length;
        } else {
            merged.push_back(block);
        }
    }
    return merged;
}

// There must be more than one block.
bool regular(std::span<const Block> blocks)
{
    const int64_t stride = blocks[1].offset - blocks[0].offset;
    for (size_t i = 1; i < blocks.size(); ++i) {
        if (blocks[i].length != blocks[0].length ||
            blocks[i].offset - blocks[i - 1].offset != stride) {
            return false;
        }
    }
    return true;
}

} // namespace

void StridedBlocks::repeat(Dimension around)
{
    if (around.count == 1) {
        return;
    }
    Dimension* inner = loops > 0 ? &loop[loops - 1] : nullptr;
    if (inner == nullptr && around.stride == static_cast<int64_t>(length)) {
        length *= around.count;
    } else if (inner != nullptr &&
               around.stride == static_cast<int64_t>(inner->count) * inner->stride) {
        inner->count *= around.count;
    } else if (loops == kMostLoops) {
        throw std::invalid_argument("a layout of too many dimensions");
    } else {
        loop[loops++] = around;
    }
}

Layout::Layout(Blocks blocks, uint64_t size, int64_t extent)
    : blocks_(std::move(blocks)), size_(size), extent_(extent)
{
}

Layout Layout::strided(int64_t offset, uint64_t block_length, std::span<const Dimension> dimensions,
                       int64_t extent)
{
    StridedBlocks blocks{offset, block_length};
    uint64_t size = block_length;
    for (const Dimension& dimension : dimensions) {
        size *= dimension.count;
    }
    if (size != 0) {
        for (const Dimension& dimension : dimensions) {
            blocks.repeat(dimension);
        }
    }
    if (blocks.loops > kDimensions) {
        throw std::invalid_argument("a layout of too many dimensions");
    }
    return Layout(blocks, size, extent);
}

Layout Layout::list(std::span<const Block> blocks, int64_t extent)
{
    std::vector<Block> merged = merge(blocks);
    if (merged.empty()) {
        return strided(0, 0, {}, extent);
    }
    if (merged.size() == 1) {
        return strided(merged[0].offset, merged[0].length, {}, extent);
    }
    if (regular(merged)) {
        const Dimension loop{merged.size(), merged[1].offset - merged[0].offset};
        return strided(merged[0].offset, merged[0].length, {&loop, 1}, extent);
    }
    if (merged.size() > std::numeric_limits<uint32_t>::max()) {
        throw std::length_error("a layout of more than 2^32 - 1 blocks");
    }
    uint64_t size = 0;
    for (const Block& block : merged) {
        size += block.length;
    }
    return Layout(std::move(merged), size, extent);
}

} // namespace gdr::kernels
