// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Packing and unpacking of elements by the GPU: one launch, whatever the number of blocks.
#pragma once

#include "kernels/layout.hpp"
#include "kernels/loaded_kernels.hpp"

#include <array>
#include <atomic>

namespace gdr::kernels {

// A layout, made ready in a context. All calls but construction, prepare() and destruction: any
// thread, no lock, no allocation, nothing waited for, one launch (more beyond 2^30 words). Where
// there are no gaps it is a cuMemcpyAsync instead. Kernels that nothing was prepared for are loaded
// when they are needed first.
class Packing {
  public:
    // Copies a list of blocks to the GPU: may wait, must not be called while work is waited for
    // elsewhere (in a progress function). kernels: of pack_ptx; outlive this. Throws cuda::Error.
    // most_words: of a launch, at most 2^30; smaller in tests alone.
    Packing(LoadedKernels& kernels, Layout layout, uint32_t most_words = uint32_t{1} << 30);
    Packing(const Packing&) = delete;
    Packing& operator=(const Packing&) = delete;
    ~Packing(); // frees the list: waits for work on it

    const Layout& layout() const { return layout_; }

    // Loads the kernels for all of count elements there, packed at a multiple of 16: may wait
    // likewise. Any thread. Throws cuda::Error, std::runtime_error (no kernels built).
    void prepare(const void* elements, uint64_t count) const;

    // Bytes [from, to) of count elements in packed form: from memory, where the first element is at
    // `elements`, to `packed`, which receives byte `from` first; or back, when what is between the
    // blocks is not touched. 0 <= from <= to <= count * layout().size(). Both buffers have to be in
    // the reach of the GPU: its own, a peer's, managed or pinned memory. Fastest where the length
    // of blocks, their distances, the addresses and `from` and `to` are multiples of 16 or 8 bytes:
    // words are as long as all of these allow. The stream is one of the kernels' context. Throws
    // cuda::Error; std::out_of_range for a range that is not in the elements.
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

    // Of a list, on the GPU, in one allocation.
    void* list_ = nullptr;
    uint64_t offsets_ = 0; // addresses of its parts
    uint64_t positions_ = 0;
    uint64_t hints_ = 0;
    uint32_t hint_shift_ = 0;
    uint64_t list_alignment_ = 0; // all offsets and lengths, or-ed
};

} // namespace gdr::kernels
