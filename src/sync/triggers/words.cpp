// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Pages of words. Each CUDA context has its own, since a registration ends with its context.
#include "sync/triggers/words.hpp"

#include "cuda/context.hpp"
#include "sync/rings/ring.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include <sys/mman.h>

namespace gdr::sync {
namespace {

constexpr size_t kPage = 16 << 10; // words of 128 streams; more if one request is larger

template <typename Piece>
struct Spare {
    unsigned long long id = 0; // of the context
    std::vector<Piece> pieces;
};

// No CUDA call is made under it: CUDA's threads give words back, too.
std::mutex& lock()
{
    static auto& mutex = *new std::mutex;
    return mutex;
}

template <typename Piece>
Spare<Piece>& spare_of(CUcontext context, size_t count)
{
    static auto& all = *new std::map<std::pair<CUcontext, size_t>, Spare<Piece>>;
    return all[{context, count}];
}

// make() allocates more when there are no spare pieces.
template <typename Piece, typename Make>
Piece take(const cuda::Driver& driver, CUcontext context, size_t count, Make&& make)
{
    const unsigned long long id = cuda::context_id(driver, context);
    std::unique_lock guard(lock());
    Spare<Piece>& spare = spare_of<Piece>(context, count); // a map keeps its elements in place
    if (spare.id != id) {
        spare = {id, {}};
    }
    while (spare.pieces.empty()) {
        guard.unlock();
        const std::vector<Piece> more = make();
        guard.lock();
        spare.pieces.insert(spare.pieces.end(), more.begin(), more.end());
    }
    Piece taken = spare.pieces.back();
    spare.pieces.pop_back();
    taken.context_id = id;
    return taken;
}

template <typename Piece>
void give_back(CUcontext context, const Piece& piece, size_t count)
{
    const std::lock_guard guard(lock());
    if (Spare<Piece>& spare = spare_of<Piece>(context, count); spare.id == piece.context_id) {
        spare.pieces.push_back(piece); // otherwise they have ended with their context
    }
}

template <typename Words>
std::vector<Mapped<Words>> make_page(const cuda::Driver& driver, size_t count)
{
    const size_t block = count * sizeof(Words), size = std::max(block, kPage);
    void* page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        throw std::bad_alloc();
    }
    madvise(page, size, MADV_DONTFORK); // a child has no use for a copy
    CUdeviceptr device = 0;
    if (const CUresult result = driver.cuMemHostRegister(
            page, size, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
        result != CUDA_SUCCESS) {
        munmap(page, size);
        throw cuda::Error(result, "cuMemHostRegister");
    }
    cuda::check(driver.cuMemHostGetDevicePointer(&device, page, 0), "cuMemHostGetDevicePointer");
    std::vector<Mapped<Words>> made;
    for (size_t at = 0; at + block <= size; at += block) {
        made.push_back({new (static_cast<char*>(page) + at) Words[count]{}, device + at, 0});
    }
    return made;
}

} // namespace

// Uses a stream of its own: while a blocking stream is captured, a copy on the legacy stream fails
// and invalidates the capture.
void write_gpu_memory(const cuda::Driver& driver, CUdeviceptr to, const void* from, size_t bytes)
{
    CUstream stream = nullptr;
    cuda::check(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    CUresult result = driver.cuMemcpyAsync(to, reinterpret_cast<CUdeviceptr>(from), bytes, stream);
    if (result == CUDA_SUCCESS) {
        result = driver.cuStreamSynchronize(stream);
    }
    driver.cuStreamDestroy(stream);
    cuda::check(result, "cuMemcpyAsync");
}

template <typename Words>
Mapped<Words> take_words(const cuda::Driver& driver, CUcontext context, size_t count)
{
    return take<Mapped<Words>>(driver, context, count,
                               [&] { return make_page<Words>(driver, count); });
}

template <typename Words>
void give_words_back(CUcontext context, const Mapped<Words>& words, size_t count)
{
    give_back(context, words, count);
}

Counters take_counters(const cuda::Driver& driver, CUcontext context, size_t count)
{
    const size_t bytes = count * sizeof(uint32_t);
    const Counters taken = take<Counters>(driver, context, count, [&] {
        Counters made;
        cuda::check(driver.cuMemAlloc(&made.device, bytes), "cuMemAlloc");
        return std::vector<Counters>{made};
    });
    try {
        const std::vector<char> zeros(bytes);
        write_gpu_memory(driver, taken.device, zeros.data(), bytes);
    } catch (...) {
        give_counters_back(context, taken, count);
        throw;
    }
    return taken;
}

void give_counters_back(CUcontext context, const Counters& counters, size_t count)
{
    give_back(context, counters, count);
}

template Mapped<Word> take_words(const cuda::Driver&, CUcontext, size_t);
template Mapped<StreamWords> take_words(const cuda::Driver&, CUcontext, size_t);
template Mapped<Gates> take_words(const cuda::Driver&, CUcontext, size_t);
template Mapped<Entry> take_words(const cuda::Driver&, CUcontext, size_t);
template Mapped<Completed> take_words(const cuda::Driver&, CUcontext, size_t);
template void give_words_back(CUcontext, const Mapped<Word>&, size_t);
template void give_words_back(CUcontext, const Mapped<StreamWords>&, size_t);
template void give_words_back(CUcontext, const Mapped<Gates>&, size_t);
template void give_words_back(CUcontext, const Mapped<Entry>&, size_t);
template void give_words_back(CUcontext, const Mapped<Completed>&, size_t);

} // namespace gdr::sync
