// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory runs out: what is refused for that leaves no stream waiting. The program's own operator
// new, which every library in it uses, fails libucx-gdr when a test wants it to.
#include "fixture.hpp"

#include <climits>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

// Allocations of the library in this thread before one fails, once; -1: any number.
thread_local int left = -1;

bool of_the_library(void* caller)
{
    Dl_info info{};
    return dladdr(caller, &info) != 0 && std::strstr(info.dli_fname, "libucx-gdr") != nullptr;
}

} // namespace

[[gnu::noinline]] void* operator new(size_t size)
{
    if (left >= 0 && of_the_library(__builtin_return_address(0)) && left-- == 0) {
        throw std::bad_alloc();
    }
    if (void* memory = std::malloc(size)) {
        return memory;
    }
    throw std::bad_alloc();
}

[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept
{
    return std::malloc(size);
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
    void SetUp() override
    {
        left = INT_MAX;
        Sides::SetUp();
        const bool is_asked = left < INT_MAX;
        left = -1;
        if (!is_asked) {
            GTEST_SKIP() << "libucx-gdr has a C++ library, and an operator new, of its own";
        }
    }

    // What it answers when the library gets memory so many times, and then not.
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
        refused += with(i % 3, [&] {
                       return ugdr_stream_wait(at_a_, work, requests.data(), requests.size());
                   }) != UCS_OK;
        ASSERT_TRUE(goes_on(work)) << "after " << i % 3 << " allocations";
    }
    EXPECT_GT(refused, 0);
    for (ugdr_request_h request : requests) {
        EXPECT_UCS(ugdr_request_wait(request));
        ugdr_request_free(request);
    }
}

// Of conditions and of operations that wait, more at a time than the library has in store.
constexpr int kRefused = 3, kMost = 5000;

TEST_F(Memory, AConditionThatWaits)
{
    CUstream first = stream(), second = stream();
    std::vector<ugdr_condition_h> points;
    int refused = 0;
    ASSERT_UCS(ugdr_condition_destroy(point_of(at_a_, second)));
    while (refused < kRefused && points.size() < kMost) {
        points.push_back(point_of(at_a_, first, UCS_OK, UGDR_CONDITION_FLAG_WAIT));
        refused += with(points.size() % 2,
                        [&] { return ugdr_condition_record(points.back(), second); }) != UCS_OK;
    }
    EXPECT_EQ(refused, kRefused);
    for (ugdr_condition_h point : points) {
        EXPECT_UCS(ugdr_condition_destroy(point));
    }
    EXPECT_TRUE(goes_on(first));
    EXPECT_TRUE(goes_on(second));
}

TEST_F(Memory, AnOperationAndItsWait)
{
    CUstream work = stream();
    std::atomic<int> done{0};
    int refused = 0, recorded = 0;
    Gate gate(work);
    ugdr_condition_h point = point_of(at_a_, work);
    const ugdr_op_param_t param = on(point, UGDR_OP_FLAG_STREAM_WAIT);
    const auto count = [](void* done) {
        ++*static_cast<std::atomic<int>*>(done);
        return UCS_OK;
    };
    while (refused < kRefused && recorded < kMost) {
        const ucs_status_t status = with(
            recorded % 2, [&] { return ugdr_call(at_a_, count, nullptr, &done, &param, nullptr); });
        ++(status == UCS_OK ? recorded : refused);
    }
    EXPECT_EQ(refused, kRefused);
    EXPECT_UCS(ugdr_condition_destroy(point));
    gate.open();
    EXPECT_TRUE(goes_on(work));
    EXPECT_EQ(done, recorded);
}

} // namespace
} // namespace synctest
