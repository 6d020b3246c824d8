// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Each thread keeps what it has used, by powers of two. Memory smaller than a page is a piece of a
// block, which is pinned as a whole: an epoch may hold many thousands. The memory is mapped here
// and registered with CUDA. Copies with cuMemHostAlloc's memory take 0.03 to 0.2 us less on an
// H200, but a GPU reset unmaps that memory while MPI uses it.
#include "mpi/staging/staging_memory.hpp"

#include "cuda/pointer.hpp"
#include "log/log.hpp"
#include "mem/own_pins.hpp"
#include "mpi/gpu/thread_stream.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <new>
#include <utility>
#include <vector>

#include <sys/mman.h>

namespace gdr::mpi {

namespace {

constexpr size_t kSmallest = 64;
constexpr size_t kPage = 4096;
constexpr size_t kBlock = size_t{64} << 10;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kLeastInHugePages = kHugePage / 2; // less would be rounded up too far

void tell_once(CUresult result, size_t length)
{
    static std::atomic_flag told = ATOMIC_FLAG_INIT;
    if (!told.test_and_set()) {
        gdr_log(warn,
                "MPI calls on GPU memory are staged in pageable memory, which is slower: %zu bytes "
                "could not be pinned: %s",
                length, cuda::error_text(result).c_str());
    }
}

void* map_some(size_t length)
{
    void* memory =
        mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        throw std::bad_alloc();
    }
    return memory;
}

char* map_aligned(size_t length, size_t alignment)
{
    auto* start = static_cast<char*>(map_some(length + alignment));
    const size_t before = -reinterpret_cast<uintptr_t>(start) % alignment;
    if (before > 0) {
        munmap(start, before);
    }
    munmap(start + before + length, alignment - before);
    return start + before;
}

// Large memory uses huge pages if the kernel has some: MPI's copies between processes look up each
// page, and took 5 to 10 % longer from 1 MiB on (two ranks on a machine with two H200s). Blocks are
// aligned to their size.
void* map(size_t length)
{
    if (length < kBlock) {
        return map_some(length);
    }
    if (length < kHugePage) {
        return map_aligned(length, kBlock);
    }
    char* const memory = map_aligned(length, kHugePage);
    (void)madvise(memory, length, MADV_HUGEPAGE);
    return memory;
}

} // namespace

class KeptMemory {
  public:
    KeptMemory() = default;
    KeptMemory(const KeptMemory&) = delete;
    KeptMemory& operator=(const KeptMemory&) = delete;
    ~KeptMemory()
    {
        for (std::vector<Kept>& memories : by_size_) {
            for (const Kept& memory : memories) {
                release(memory);
            }
        }
    }

    void take(StagingMemory& into, const cuda::Driver& driver, CUdevice device, size_t length)
    {
        const size_t size = size_for(length);
        std::vector<Kept>& memories = by_size_[std::countr_zero(size)];
        if (memories.empty()) {
            if (size >= kPage) {
                return give(into, make(driver, device, size));
            }
            add_pieces(memories, driver, device, size);
        }
        give(into, memories.back());
        memories.pop_back();
        bytes_ -= size;
    }

    // For a thread that keeps nothing.
    static void take_new(StagingMemory& into, const cuda::Driver& driver, CUdevice device,
                         size_t length)
    {
        give(into, make(driver, device, size_for(std::max(length, kPage))));
    }
    static void give_back(const StagingMemory& from)
    {
        release({from.data_, from.length_, from.pinned_, from.mapped_});
    }

    void keep(const StagingMemory& from)
    {
        const Kept memory = {from.data_, from.length_, from.pinned_, from.mapped_};
        try {
            if (bytes_ + memory.length <= kKeptBytes) {
                by_size_[std::countr_zero(memory.length)].push_back(memory);
                bytes_ += memory.length;
                return;
            }
        } catch (const std::bad_alloc&) {
            // There is no memory to remember it by.
        }
        release(memory);
    }

  private:
    struct Kept {
        char* data;
        size_t length;
        bool pinned, mapped;
    };

    // At the block's start, instead of the first piece.
    struct Block {
        Kept memory;
        std::atomic<size_t> pieces; // pieces in use or kept

        static Block& of(const char* piece)
        {
            const auto address = reinterpret_cast<uintptr_t>(piece);
            return *reinterpret_cast<Block*>(address & ~uintptr_t{kBlock - 1});
        }
    };
    static_assert(sizeof(Block) <= kSmallest);

    void add_pieces(std::vector<Kept>& pieces, const cuda::Driver& driver, CUdevice device,
                    size_t size)
    {
        pieces.reserve(kBlock / size);
        const Kept block = make(driver, device, kBlock);
        new (block.data) Block{block, kBlock / size - 1};
        for (size_t offset = kBlock - size; offset > 0; offset -= size) {
            pieces.push_back({block.data + offset, size, block.pinned, block.mapped});
        }
        bytes_ += kBlock - size;
    }

    static size_t size_for(size_t length)
    {
        return std::bit_ceil(std::max(length, length < kLeastInHugePages ? kSmallest : kHugePage));
    }

    static void give(StagingMemory& into, const Kept& memory)
    {
        into.data_ = memory.data;
        into.length_ = memory.length;
        into.pinned_ = memory.pinned;
        into.mapped_ = memory.mapped;
    }

    static Kept make(const cuda::Driver& driver, CUdevice device, size_t size)
    {
        const ThreadStream current(driver, device);
        void* memory = map(size);
        const CUresult result = driver.cuMemHostRegister(memory, size, CU_MEMHOSTREGISTER_PORTABLE);
        if (result == CUDA_SUCCESS) {
            mem::own_pins::add(cuda::buffer_id(driver, memory)); // so UCP asks about it once
        } else {
            tell_once(result, size);
        }
        CUdeviceptr of_kernels = 0;
        const bool mapped =
            result == CUDA_SUCCESS &&
            driver.cuMemHostGetDevicePointer(&of_kernels, memory, 0) == CUDA_SUCCESS &&
            of_kernels == reinterpret_cast<CUdeviceptr>(memory);
        return {static_cast<char*>(memory), size, result == CUDA_SUCCESS, mapped};
    }

    // At the end of the process CUDA may have forgotten the memory, and after a GPU reset it is not
    // pinned.
    static void release(const Kept& memory) noexcept
    {
        if (memory.length >= kPage) {
            return release_pages(memory);
        }
        Block& block = Block::of(memory.data);
        if (block.pieces.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            release_pages(Kept(block.memory));
        }
    }
    static void release_pages(const Kept& memory) noexcept
    {
        const cuda::Driver* driver = memory.pinned ? cuda::open_driver() : nullptr;
        if (driver != nullptr) {
            unpin(*driver, memory.data);
        }
        munmap(memory.data, memory.length);
    }

    // The calling thread need not have a context.
    static void unpin(const cuda::Driver& driver, void* memory)
    try {
        const cuda::AnyContext context(driver);
        cuda::check(driver.cuMemHostUnregister(memory), "cuMemHostUnregister");
    } catch (const cuda::Error& error) {
        gdr_log(debug, "host memory at %p is not unpinned: %s", memory, error.what());
    }

    std::array<std::vector<Kept>, 64> by_size_;
    size_t bytes_ = 0;
};

namespace {

// Programs also call MPI at the very end of a thread: in destructors of thread_local or static
// objects, and in atexit() handlers. By then the thread has given back what it kept. This has no
// destructor, so it can be read at any time.
thread_local constinit bool keeps_no_more = false;

struct OfThread {
    KeptMemory memory;
    ~OfThread() { keeps_no_more = true; }
};

// nullptr: the thread keeps nothing any more.
KeptMemory* kept()
{
    if (keeps_no_more) {
        return nullptr;
    }
    static thread_local OfThread thread;
    return &thread.memory;
}

} // namespace

StagingMemory::StagingMemory(const cuda::Driver& driver, CUdevice device, size_t length)
{
    if (KeptMemory* const memory = kept()) {
        memory->take(*this, driver, device, length);
    } else {
        KeptMemory::take_new(*this, driver, device, length);
    }
}

StagingMemory::StagingMemory(StagingMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), length_(other.length_), pinned_(other.pinned_),
      mapped_(other.mapped_)
{
}

StagingMemory& StagingMemory::operator=(StagingMemory&& other) noexcept
{
    std::swap(data_, other.data_);
    std::swap(length_, other.length_);
    std::swap(pinned_, other.pinned_);
    std::swap(mapped_, other.mapped_);
    return *this;
}

StagingMemory::~StagingMemory()
{
    if (data_ == nullptr) {
        return;
    }
    if (KeptMemory* const memory = kept()) {
        memory->keep(*this);
    } else {
        KeptMemory::give_back(*this);
    }
}

} // namespace gdr::mpi
