// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Splits ranges of elements into launches: the loops of a layout in words, the digits of a launch's
// first word, and several launches if a number exceeds 31 bits.
#include "kernels/packing.hpp"
#include "cuda/allocation.hpp"
#include "cuda/context.hpp"
#include "kernels/pack_arguments.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

namespace gdr::kernels {

namespace {

constexpr unsigned kLongestWord = 4; // 16 bytes, as a logarithm

// index * stride, of any sign.
uint64_t distance(uint64_t index, int64_t stride)
{
    return index * static_cast<uint64_t>(stride);
}

// Copies to the GPU on a stream of its own, and waits. The legacy stream would wait for the
// application's kernels, and a copy from pageable memory may still be under way when the call
// returns.
CUresult upload(const cuda::Driver& driver, uint64_t to, const void* from, size_t bytes)
{
    CUstream stream = nullptr;
    CUresult result = driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = driver.cuMemcpyAsync(to, reinterpret_cast<uintptr_t>(from), bytes, stream);
    const CUresult waited = driver.cuStreamSynchronize(stream);
    driver.cuStreamDestroy(stream);
    return result != CUDA_SUCCESS ? result : waited;
}

} // namespace

// What all launches of a call share. Indices of words count from the first element.
struct Packing::Call {
    Direction direction;
    unsigned word; // logarithm of its size
    uintptr_t elements;
    uint64_t begin; // first word of the range; it is at `packed`
    uintptr_t packed;
    CUstream stream;

    uintptr_t packed_at(uint64_t index) const { return packed + ((index - begin) << word); }
};

// Nested loops over words, the innermost first.
struct Packing::Words {
    uintptr_t memory;   // of the first one
    uint64_t first = 0; // its index
    size_t loops = 0;
    std::array<Dimension, StridedCopy::kLevels> loop{};

    void repeat(Dimension around)
    {
        if (around.count != 1) {
            loop[loops++] = around;
        }
    }
    const Dimension& outermost() const { return loop[loops - 1]; }
    std::span<const Dimension> inner() const { return {loop.data(), loops - 1}; }
    bool consecutive(int64_t word_size) const
    {
        return loops == 0 || (loops == 1 && loop[0].stride == word_size);
    }
};

Packing::Packing(LoadedKernels& kernels, Layout layout, uint32_t most_words)
    : kernels_(kernels), layout_(std::move(layout)), most_words_(most_words)
{
    if (layout_.strided() == nullptr) {
        upload_list();
    }
}

Packing::~Packing()
{
    if (list_ != nullptr) {
        cuda::release(kernels_.driver(), list_);
    }
}

// The list holds each block's offset and position, and hints: for every 2^hint_shift packed bytes,
// about the average length of a block, the block in which they begin. So a thread has few blocks to
// search.
void Packing::upload_list()
{
    const std::span<const Block> blocks = layout_.list();
    const uint64_t average = layout_.size() / blocks.size();
    hint_shift_ = static_cast<uint32_t>(std::bit_width(average) - 1);
    const uint64_t hints = (layout_.size() >> hint_shift_) + 2;
    const size_t bytes = blocks.size() * 16 + hints * sizeof(uint32_t);
    std::vector<uint64_t> host((bytes + 7) / 8);
    auto* positions = host.data() + blocks.size();
    auto* hint = reinterpret_cast<uint32_t*>(positions + blocks.size());
    uint64_t position = 0, next_hint = 0;
    for (size_t i = 0; i < blocks.size(); ++i) {
        host[i] = static_cast<uint64_t>(blocks[i].offset);
        positions[i] = position;
        list_alignment_ |= host[i] | blocks[i].length;
        position += blocks[i].length;
        for (; next_hint << hint_shift_ < position; ++next_hint) {
            hint[next_hint] = static_cast<uint32_t>(i);
        }
    }
    std::fill(hint + next_hint, hint + hints, static_cast<uint32_t>(blocks.size() - 1));

    const cuda::Driver& driver = kernels_.driver();
    const cuda::CurrentContext current(driver, kernels_.context());
    cuda::check(cuda::allocate(driver, cuda::MemoryKind::device, nullptr, bytes, &list_),
                "cuMemAlloc");
    offsets_ = reinterpret_cast<uintptr_t>(list_);
    positions_ = offsets_ + blocks.size() * 8;
    hints_ = positions_ + blocks.size() * 8;
    if (CUresult result = upload(driver, offsets_, host.data(), bytes); result != CUDA_SUCCESS) {
        cuda::release(driver, list_);
        throw cuda::Error(result, "cuMemcpyAsync");
    }
}

void Packing::pack(const void* elements, uint64_t count, uint64_t from, uint64_t to, void* packed,
                   CUstream stream) const
{
    run(packing, reinterpret_cast<uintptr_t>(elements), count, from, to,
        reinterpret_cast<uintptr_t>(packed), stream);
}

void Packing::unpack(void* elements, uint64_t count, uint64_t from, uint64_t to, const void* packed,
                     CUstream stream) const
{
    run(unpacking, reinterpret_cast<uintptr_t>(elements), count, from, to,
        reinterpret_cast<uintptr_t>(packed), stream);
}

void Packing::run(Direction direction, uintptr_t elements, uint64_t count, uint64_t from,
                  uint64_t to, uintptr_t packed, CUstream stream) const
{
    uint64_t size = 0;
    if (__builtin_mul_overflow(count, layout_.size(), &size) || from > to || to > size) {
        throw std::out_of_range("a range that is not in the elements");
    }
    if (from == to) {
        return;
    }
    Call call{direction, longest_word(from | to | packed | elements, count), elements, 0, packed,
              stream};
    call.begin = from >> call.word;
    if (layout_.strided() == nullptr) {
        return run_list(call, call.begin, to >> call.word);
    }
    const StridedBlocks blocks = strided_blocks(count);
    Words words{elements + static_cast<uint64_t>(blocks.offset)};
    words.repeat({blocks.length >> call.word, int64_t{1} << call.word});
    for (size_t i = 0; i < blocks.loops; ++i) {
        words.repeat(blocks.loop[i]);
    }
    run_strided(call, words, call.begin, to >> call.word);
}

// For all elements.
StridedBlocks Packing::strided_blocks(uint64_t count) const
{
    StridedBlocks blocks = *layout_.strided();
    blocks.repeat({count, layout_.extent()});
    return blocks;
}

// addresses: the addresses, and the bounds of the range, or-ed.
unsigned Packing::longest_word(uint64_t addresses, uint64_t count) const
{
    uint64_t alignment = addresses;
    if (layout_.strided() == nullptr) {
        alignment |= list_alignment_;
        if (count > 1) {
            alignment |= static_cast<uint64_t>(layout_.extent());
        }
    } else {
        const StridedBlocks blocks = strided_blocks(count);
        alignment |= static_cast<uint64_t>(blocks.offset) | blocks.length;
        for (size_t i = 0; i < blocks.loops; ++i) {
            alignment |= static_cast<uint64_t>(blocks.loop[i].stride);
        }
    }
    return std::min<unsigned>(kLongestWord, std::countr_zero(alignment));
}

void Packing::prepare(const void* elements, uint64_t count) const
{
    const unsigned word =
        longest_word(reinterpret_cast<uintptr_t>(elements) | count * layout_.size(), count);
    function(packing, word);
    function(unpacking, word);
}

CUfunction Packing::function(Direction direction, unsigned word) const
{
    std::atomic<CUfunction>& known = functions_[direction][word];
    CUfunction function = known.load(std::memory_order_relaxed);
    if (function == nullptr) {
        const char* const what = direction == packing ? "gdr_pack_" : "gdr_unpack_";
        const char* const kind = layout_.strided() != nullptr ? "strided_" : "list_";
        function = kernels_.function(std::string(what) + kind + std::to_string(1 << word));
        known.store(function, std::memory_order_relaxed);
    }
    return function;
}

void Packing::run_strided(const Call& call, const Words& words, uint64_t from, uint64_t to) const
{
    if (words.consecutive(int64_t{1} << call.word)) {
        return copy(call, words.memory + ((from - words.first) << call.word), from, to);
    }
    uint64_t within = 1; // words of one iteration of the outermost loop
    bool small = true;
    for (const Dimension& loop : words.inner()) {
        within *= loop.count;
        small = small && loop.count <= most_words_;
    }
    if (!small) {
        for (uint64_t i = (from - words.first) / within; from < to; ++i) {
            Words turn = words;
            --turn.loops;
            turn.memory += distance(i, words.outermost().stride);
            turn.first += i * within;
            const uint64_t end = std::min(to, turn.first + within);
            run_strided(call, turn, from, end);
            from = end;
        }
        return;
    }
    while (from < to) {
        StridedCopy copy{};
        copy.words = static_cast<uint32_t>(std::min<uint64_t>(to - from, most_words_));
        copy.packed = call.packed_at(from);
        copy.levels = static_cast<uint32_t>(words.loops);
        uint64_t rest = from - words.first;
        for (size_t i = 0; i < words.inner().size(); ++i) {
            const auto [count, stride] = words.loop[i];
            copy.level[i] = {Divisor::of(static_cast<uint32_t>(count)),
                             static_cast<uint32_t>(rest % count), stride};
            rest /= count;
        }
        copy.memory = words.memory + distance(rest, words.outermost().stride);
        copy.level[words.loops - 1].stride = words.outermost().stride;
        launch(call, copy);
        from += copy.words;
    }
}

void Packing::run_list(const Call& call, uint64_t from, uint64_t to) const
{
    const uint64_t element = layout_.size() >> call.word;
    const bool small = element <= most_words_;
    while (from < to) {
        const uint64_t index = from / element;
        const uint64_t end = small ? to : std::min(to, (index + 1) * element);
        ListCopy copy{};
        copy.memory = call.elements + distance(index, layout_.extent());
        copy.packed = call.packed_at(from);
        copy.words = static_cast<uint32_t>(std::min<uint64_t>(end - from, most_words_));
        if (small) {
            copy.element = Divisor::of(static_cast<uint32_t>(element));
        }
        copy.start = from % element;
        copy.extent = layout_.extent();
        copy.offsets = offsets_;
        copy.positions = positions_;
        copy.hints = hints_;
        copy.hint_shift = hint_shift_;
        launch(call, copy);
        from += copy.words;
    }
}

template <typename Copy>
void Packing::launch(const Call& call, const Copy& copy) const
{
    kernels_.launch(function(call.direction, call.word), copy.words, kWordsAtOnce, copy,
                    call.stream);
}

void Packing::copy(const Call& call, uintptr_t memory, uint64_t from, uint64_t to) const
{
    const uintptr_t packed = call.packed_at(from);
    const bool pack = call.direction == packing;
    cuda::check(kernels_.driver().cuMemcpyAsync(pack ? packed : memory, pack ? memory : packed,
                                                (to - from) << call.word, call.stream),
                "cuMemcpyAsync");
}

} // namespace gdr::kernels
