// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/mem under many threads that unmap and map anew: what a thread acquires was registered after
// its last unmapping of that memory. Registrations are counterfeit and bear a stamp of what was
// mapped when they were made; so a stale one is told exactly, and they cost nothing.
#include "../emu/preload.hpp"
#include "../tap.hpp"

#include "mem/cache.hpp"
#include "mem/host_pages.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <ostream>
#include <sys/mman.h>
#include <thread>
#include <vector>

namespace gdr::mem {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kStride = 2 * kPage; // nobody's page between those of two threads

// One page for each thread, and how often it was mapped.
class Pages {
  public:
    explicit Pages(size_t count) : mappings_(count)
    {
        void* memory = mmap(nullptr, count * kStride, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        start_ = reinterpret_cast<uintptr_t>(memory);
        shown = this;
    }
    ~Pages()
    {
        shown = nullptr;
        munmap(reinterpret_cast<void*>(start_), mappings_.size() * kStride);
    }

    uintptr_t address(size_t page) const { return start_ + page * kStride; }
    uint32_t mapping(size_t page) const { return mappings_[page].load(std::memory_order_relaxed); }
    uint32_t mapping_at(uintptr_t address) const { return mapping((address - start_) / kStride); }

    // As UCX's memory hooks report it: before it is unmapped.
    void map_anew(size_t page, bool really)
    {
        host_pages::forget(address(page), kPage);
        UnmapLog::instance().append(address(page), kPage);
        if (really) {
            void* memory = reinterpret_cast<void*>(address(page));
            if (mmap(memory, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                     -1, 0) == MAP_FAILED) {
                std::abort();
            }
        }
        mappings_[page].fetch_add(1, std::memory_order_relaxed);
    }

    static Pages* shown; // to the counterfeit HCA

  private:
    uintptr_t start_;
    std::vector<std::atomic<uint32_t>> mappings_;
};

Pages* Pages::shown = nullptr;

constexpr size_t kThreads = 8;

struct Load {
    const char* name;
    bool really_unmapped;
    size_t unmapping; // threads; the others look at memory that stays, and so read the log
    int rounds;

    friend std::ostream& operator<<(std::ostream& out, const Load& load)
    {
        return out << load.name;
    }
};

class MemStressTest : public testing::TestWithParam<Load> {
  protected:
    // Calls look(thread) over and over in every thread, and map_anew() before where the thread is
    // one of those. Returns how often look() found what it should not.
    uint64_t stale(Pages& pages, int rounds, const std::function<bool(size_t thread)>& look)
    {
        const Load& load = GetParam();
        std::atomic<uint64_t> sum = 0;
        std::atomic<size_t> unmapping = load.unmapping;
        std::vector<std::thread> threads;
        for (size_t thread = 0; thread < kThreads; ++thread) {
            threads.emplace_back([&, thread] {
                uint64_t found = 0;
                if (thread >= load.unmapping) {
                    while (unmapping > 0) {
                        found += look(thread);
                    }
                } else {
                    for (int round = 0; round < rounds; ++round) {
                        pages.map_anew(thread, load.really_unmapped);
                        found += look(thread);
                    }
                    --unmapping;
                }
                sum += found;
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        return sum;
    }
};

TEST_P(MemStressTest, what_was_unmapped_is_registered_anew)
{
    const verbs::Device device(emulated_hca(0));
    const verbs::ProtectionDomain pd(ibv_alloc_pd(device.context()));
    Cache cache(device, pd.get(), true);
    Pages pages(kThreads);
    EXPECT_EQ(stale(pages, GetParam().rounds,
                    [&](size_t thread) {
                        Failure failure;
                        Region* region =
                            cache.acquire(pages.address(thread), kPage, Access::remote, &failure);
                        const bool old = region->lkey != pages.mapping(thread);
                        Cache::release(region);
                        return old;
                    }),
              0u)
        << "of " << GetParam().unmapping * GetParam().rounds;
}

TEST_P(MemStressTest, what_was_unmapped_is_not_known_to_be_host_memory)
{
    Pages pages(kThreads);
    std::vector<uint32_t> known(kThreads); // the mapping that each thread found to be host memory
    EXPECT_EQ(stale(pages, GetParam().rounds,
                    [&](size_t thread) {
                        const uintptr_t address = pages.address(thread);
                        if (host_pages::contains(address)) {
                            return known[thread] != pages.mapping(thread);
                        }
                        host_pages::add(address);
                        known[thread] = pages.mapping(thread);
                        return false;
                    }),
              0u)
        << "of " << GetParam().unmapping * GetParam().rounds;
}

INSTANTIATE_TEST_SUITE_P(Loads, MemStressTest,
                         testing::Values(Load{"many_unmap", false, kThreads, 200000},
                                         Load{"many_really_unmap", true, kThreads, 10000},
                                         Load{"few_unmap", false, 2, 200000}),
                         [](const auto& load) { return load.param.name; });

} // namespace
} // namespace gdr::mem

// The counterfeit HCA: a registration's key is the number of the mapping that it was made of.
#undef ibv_reg_mr
extern "C" {

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length, uint64_t, unsigned)
{
    auto* mr = new ibv_mr{};
    mr->pd = pd;
    mr->addr = address;
    mr->length = length;
    mr->lkey = mr->rkey = gdr::mem::Pages::shown->mapping_at(reinterpret_cast<uintptr_t>(address));
    return mr;
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int access)
{
    return ibv_reg_mr_iova2(pd, address, length, 0, static_cast<unsigned>(access));
}

int ibv_dereg_mr(ibv_mr* mr)
{
    delete mr;
    return 0;
}

} // extern "C"

int main(int argc, char** argv)
{
    run_on_emulated_hca(argv);
    return run_tests(argc, argv);
}
