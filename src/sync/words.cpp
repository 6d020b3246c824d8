// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Pages of words, for each CUDA context its own: registrations end with their context.
#include "sync/words.hpp"

#include <map>
#include <mutex>
#include <new>
#include <vector>

#include <sys/mman.h>

namespace gdr::sync {
namespace {

constexpr size_t kPage = 16 << 10; // of 128 streams

template <typename Words>
struct Spare {
    unsigned long long id = 0; // of the context: handles are used again
    std::vector<Mapped<Words>> words;
};

// Held for no call of CUDA: words come back from its threads, too.
std::mutex& lock()
{
    static auto& mutex = *new std::mutex;
    return mutex;
}

template <typename Words>
Spare<Words>& spare_of(CUcontext context)
{
    static auto& all = *new std::map<CUcontext, Spare<Words>>;
    return all[context];
}

template <typename Words>
std::vector<Mapped<Words>> make_page(const cuda::Driver& driver)
{
    static_assert(sizeof(Words) == 2 * kSecondWord);
    void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        throw std::bad_alloc();
    madvise(page, kPage, MADV_DONTFORK); // a child's copy would be of no use
    CUdeviceptr device = 0;
    cuda::check(driver.cuMemHostRegister(
                    page, kPage, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP),
                "cuMemHostRegister");
    cuda::check(driver.cuMemHostGetDevicePointer(&device, page, 0), "cuMemHostGetDevicePointer");
    std::vector<Mapped<Words>> made;
    for (size_t at = 0; at < kPage; at += sizeof(Words))
        made.push_back({new (static_cast<char*>(page) + at) Words{}, device + at});
    return made;
}

} // namespace

template <typename Words>
Mapped<Words> take_words(const cuda::Driver& driver, CUcontext context)
{
    unsigned long long id = 0;
    if (driver.cuCtxGetId != nullptr)
        cuda::check(driver.cuCtxGetId(context, &id), "cuCtxGetId");
    std::unique_lock guard(lock());
    if (Spare<Words>& spare = spare_of<Words>(context); spare.id != id)
        spare = {id, {}};
    while (spare_of<Words>(context).words.empty()) {
        guard.unlock();
        const auto page = make_page<Words>(driver);
        guard.lock();
        auto& words = spare_of<Words>(context).words;
        words.insert(words.end(), page.begin(), page.end());
    }
    auto& words = spare_of<Words>(context).words;
    const Mapped<Words> taken = words.back();
    words.pop_back();
    return taken;
}

template <typename Words>
void give_words_back(CUcontext context, const Mapped<Words>& words)
{
    const std::lock_guard guard(lock());
    spare_of<Words>(context).words.push_back(words);
}

template Mapped<StreamWords> take_words(const cuda::Driver&, CUcontext);
template Mapped<Gates> take_words(const cuda::Driver&, CUcontext);
template void give_words_back(CUcontext, const Mapped<StreamWords>&);
template void give_words_back(CUcontext, const Mapped<Gates>&);

} // namespace gdr::sync
