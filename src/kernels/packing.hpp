// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Packs and unpacks elements on the GPU: one launch, whatever the number of blocks.
#pragma once

#include "kernels/layout.hpp"
#include "kernels/loaded_kernels.hpp"

#include <array>
#include <atomic>

namespace gdr::kernels {

// A layout, prepared in a context. All calls except construction, prepare() and destruction work in
// any thread without locks, allocations or waits, with one launch (more beyond 2^30 words). If
// there are no gaps they call cuMemcpyAsync instead. Kernels that were not prepared are loaded at
// their first use.
class Packing {
  public:
    // Copies a list of blocks to the GPU. This may wait, so do not call it from a progress
    // function, on which other work may depend. kernels: of pack_ptx; must outlive this. Throws
    // cuda::Error. most_words: the limit of a launch, at most 2^30; smaller only in tests.
    Packing(LoadedKernels& kernels, Layout layout, uint32_t most_words = uint32_t{1} << 30);
    Packing(const Packing&) = delete;
    Packing& operator=(const Packing&) = delete;
    ~Packing(); // frees the list: waits for work on it

    const Layout& layout() const { return layout_; }

    // Loads the kernels for all of count elements, packed at a multiple of 16; may also wait. Any
    // thread. Throws cuda::Error, std::runtime_error (no kernels built).
    void prepare(const void* elements, uint64_t count) const;

    // pack() copies bytes [from, to) of the packed form of count elements from memory, where the
    // first element is at `elements`, to `packed`, which receives byte `from` first. unpack()
    // copies them back and does not touch the gaps. 0 <= from <= to <= count * layout().size(). The
    // GPU must be able to access both buffers: its own memory, a peer's, managed or pinned memory.
    // It is fastest if block lengths, distances, addresses, `from` and `to` are multiples of 16 or
    // 8 bytes: these limit the length of words. The stream belongs to the kernels' context. Throws
    // cuda::Error; std::out_of_range for a range outside the elements.
    void pack(const void* elements, uint64_t count, uint64_t from, uint64_t to, void* packed,
              CUstream stream) const;
    void unpack(void* elements, uint64_t count, uint64_t from, uint64_t to, const void* packed,
                CUstream stream) const;

  private:
    enum Direction : size_t { packing, unpacking };
    static constexpr size_t kWordSizes = 5; // 1 to 16 bytes, by their logarithm
    using Functions = std::array<std::array<std::atomic<CUfunction>, kWordSizes>, 2>;

    struct Call;
    struct Words;

    CUfunction function(Direction direction, unsigned word) const;
    StridedBlocks strided_blocks(uint64_t count) const;
    unsigned longest_word(uint64_t addresses, uint64_t count) const;
    void run(Direction direction, uintptr_t elements, uint64_t count, uint64_t from, uint64_t to,
             uintptr_t packed, CUstream stream) const;
    void run_strided(const Call& call, const Words& words, uint64_t from, uint64_t to) const;
    void run_list(const Call& call, uint64_t from, uint64_t to) const;
    void copy(const Call& call, uintptr_t memory, uint64_t from, uint64_t to) const;
    template <typename Copy>
    void launch(const Call& call, const Copy& copy) const;
    void upload_list();

    LoadedKernels& kernels_;
    const Layout layout_;
    const uint32_t most_words_;
    mutable Functions functions_{}; // those loaded so far

    // A list, on the GPU, in one allocation.
    void* list_ = nullptr;
    uint64_t offsets_ = 0; // addresses of its parts
    uint64_t positions_ = 0;
    uint64_t hints_ = 0;
    uint32_t hint_shift_ = 0;
    uint64_t list_alignment_ = 0; // all offsets and lengths, or-ed
};

} // namespace gdr::kernels
