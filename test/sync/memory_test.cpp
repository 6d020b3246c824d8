// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory runs out: what is refused for that leaves no stream waiting. The program's own operator
// new, which every library in it uses, fails when a test wants it to.
#include "fixture.hpp"

#include <cstdlib>
#include <new>

namespace {

thread_local int left = -1; // of this thread's allocations, until one fails, once; -1: any number

} // namespace

[[gnu::noinline]] void* operator new(size_t size)
{
    if (left >= 0 && left-- == 0)
        throw std::bad_alloc();
    if (void* memory = std::malloc(size))
        return memory;
    throw std::bad_alloc();
}

[[gnu::noinline]] void operator delete(void* memory) noexcept
{
    std::free(memory);
}

[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept
{
    std::free(memory);
}

namespace synctest {
namespace {

class Memory : public Sides {
  protected:
    // What it answers with so many allocations and none after these.
    template <typename Call>
    static ucs_status_t with(int allocations, Call&& call)
    {
        left = allocations;
        const ucs_status_t status = call();
        left = -1;
        return status;
    }

    static bool goes_on(CUstream stream)
    {
        return eventually([&] { return cuStreamQuery(stream) == CUDA_SUCCESS; });
    }
};

// Each time for more operations than there has been room for.
TEST_F(Memory, AWait)
{
    constexpr int kTimes = 20;
    CUstream work = stream();
    std::vector<ugdr_request_h> requests;
    int refused = 0;
    ASSERT_UCS(ugdr_stream_wait_all(at_a_, work)); // the stream is known afterwards
    for (int i = 0; i < kTimes; ++i) {
        for (int more = 0; more < 100; ++more) {
            requests.push_back(nullptr);
            ASSERT_UCS(ugdr_call(
                at_a_, [](void*) { return UCS_OK; }, nullptr, nullptr, nullptr, &requests.back()));
        }
        refused += with(i, [&] {
                       return ugdr_stream_wait(at_a_, work, requests.data(), requests.size());
                   }) != UCS_OK;
        ASSERT_TRUE(goes_on(work)) << "after " << i << " allocations";
    }
    EXPECT_GT(refused, 0);
    for (ugdr_request_h request : requests) {
        EXPECT_UCS(ugdr_request_wait(request));
        ugdr_request_free(request);
    }
}

// More of them than the library has in store.
TEST_F(Memory, AConditionThatWaits)
{
    constexpr int kTimes = 300;
    CUstream first = stream(), second = stream();
    std::vector<ugdr_condition_h> points;
    int refused = 0;
    ASSERT_UCS(ugdr_condition_destroy(point_of(at_a_, second)));
    for (int i = 0; i < kTimes; ++i) {
        points.push_back(point_of(at_a_, first, UCS_OK, UGDR_CONDITION_FLAG_WAIT));
        refused +=
            with(i % 8, [&] { return ugdr_condition_record(points.back(), second); }) != UCS_OK;
    }
    EXPECT_GT(refused, 0);
    for (ugdr_condition_h point : points)
        EXPECT_UCS(ugdr_condition_destroy(point));
    EXPECT_TRUE(goes_on(first));
    EXPECT_TRUE(goes_on(second));
}

} // namespace
} // namespace synctest
