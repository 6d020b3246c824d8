// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Several threads with one condition, one stream, one capture.
#include "fixture.hpp"

#include <algorithm>

namespace synctest {
namespace {

class Threads : public Persistent {
  protected:
    // Another thread of the same CUDA context.
    template <typename Body>
    std::thread thread(Body&& body)
    {
        return std::thread([this, body] {
            EXPECT_CUDA(cuCtxSetCurrent(context_));
            body();
        });
    }

    static ucs_status_t count(void* done)
    {
        ++*static_cast<std::atomic<int>*>(done);
        return UCS_OK;
    }

    // Adds to its count, at each run.
    ucs_status_t attach(ugdr_condition_h condition, std::atomic<int>& done, uint64_t flags = 0)
    {
        const ugdr_op_param_t param = on(condition, flags);
        return ugdr_call(at_a_, count, nullptr, &done, &param, nullptr);
    }
};

// What is attached belongs to one of the points, as a whole: each operation runs, and a stream that
// waits at one goes on.
TEST_F(Threads, AConditionIsRecordedAndAttachedTo)
{
    for (const uint64_t flags : {uint64_t{0}, uint64_t{UGDR_CONDITION_FLAG_WAIT}}) {
        constexpr int kTimes = 50000;
        CUstream ahead = stream(), behind = stream();
        for (int i = 0; i < kTimes; ++i) // its points are none of the other's
            ASSERT_UCS(ugdr_condition_destroy(point_of(at_a_, ahead)));
        ugdr_condition_h point = point_of(at_a_, ahead, UCS_OK, flags);
        std::atomic<bool> stopping{false};
        std::atomic<int> recorded{0}, done{0};
        std::thread recording = thread([&] {
            for (; !stopping; ++recorded)
                EXPECT_UCS(ugdr_condition_record(point, recorded % 2 == 0 ? behind : ahead));
        });
        int attached = 0;
        for (; attached < kTimes || recorded < kTimes / 10; ++attached)
            EXPECT_UCS(attach(point, done));
        stopping = true;
        recording.join();
        EXPECT_UCS(ugdr_condition_destroy(point));
        for (CUstream one : {ahead, behind})
            ASSERT_TRUE(eventually([&] { return cuStreamQuery(one) == CUDA_SUCCESS; }));
        ASSERT_TRUE(eventually([&] { return done == attached; }));
    }
}

} // namespace
} // namespace synctest
