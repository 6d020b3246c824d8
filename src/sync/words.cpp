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

struct ContextWords {
    unsigned long long id = 0; // of the context: handles are used again
    std::vector<MappedWords> spare;
};

std::mutex& lock()
{
    static auto& mutex = *new std::mutex;
    return mutex;
}

ContextWords& words_of(CUcontext context)
{
    static auto& all = *new std::map<CUcontext, ContextWords>;
    return all[context];
}

void add_page(const cuda::Driver& driver, std::vector<MappedWords>& spare)
{
    void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        throw std::bad_alloc();
    madvise(page, kPage, MADV_DONTFORK); // a child's copy would be of no use
    CUdeviceptr device = 0;
    cuda::check(driver.cuMemHostRegister(
                    page, kPage, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP),
                "cuMemHostRegister");
    cuda::check(driver.cuMemHostGetDevicePointer(&device, page, 0), "cuMemHostGetDevicePointer");
    for (size_t at = 0; at < kPage; at += sizeof(Words))
        spare.push_back({new (static_cast<char*>(page) + at) Words{}, device + at});
}

} // namespace

MappedWords take_words(const cuda::Driver& driver, CUcontext context)
{
    const std::lock_guard guard(lock());
    ContextWords& words = words_of(context);
    unsigned long long id = 0;
    if (driver.cuCtxGetId != nullptr)
        cuda::check(driver.cuCtxGetId(context, &id), "cuCtxGetId");
    if (id != words.id)
        words = {id, {}};
    if (words.spare.empty())
        add_page(driver, words.spare);
    const MappedWords taken = words.spare.back();
    words.spare.pop_back();
    return taken;
}

void give_words_back(CUcontext context, const MappedWords& words)
{
    const std::lock_guard guard(lock());
    words_of(context).spare.push_back(words);
}

} // namespace gdr::sync
