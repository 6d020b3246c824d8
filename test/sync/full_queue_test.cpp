// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A stream's launch queue is full.
#include "fixture.hpp"

#include "emu/softcuda/softcuda.h"

#include <cstdlib>
#include <future>

namespace synctest {
namespace {

// A stream that waits until it is released, and whose launch queue is full behind that: CUDA lets
// who gives it more wait.
class FullQueue : public Sides {
  protected:
    void SetUp() override
    {
        if (SOFTCUDA(softcuda_calls) != nullptr &&
            std::getenv("SOFTCUDA_LAUNCH_QUEUE") == nullptr) {
            GTEST_SKIP() << "streams of the emulated driver take any number of operations";
        }
        Sides::SetUp();
        full_ = stream();
    }
    void TearDown() override
    {
        if (!IsSkipped()) {
            Sides::TearDown();
        }
    }

    static ucs_status_t release(void* released)
    {
        *static_cast<std::atomic<bool>*>(released) = true;
        return UCS_OK;
    }

    // In another thread of the same CUDA context.
    template <typename Body>
    std::future<void> async(Body&& body)
    {
        return std::async(std::launch::async, [this, body] {
            EXPECT_CUDA(cuCtxSetCurrent(context_));
            body();
        });
    }

    // enqueue(): something to the stream. It returns when that is full; the rest comes later.
    template <typename Enqueue>
    void fill(Enqueue&& enqueue)
    {
        const auto start = [](void*) { return UCS_INPROGRESS; };
        const auto test = [](void* released) {
            return *static_cast<std::atomic<bool>*>(released) ? UCS_OK : UCS_INPROGRESS;
        };
        ugdr_request_h held;
        ASSERT_UCS(ugdr_call(at_a_, start, test, &released_, nullptr, &held));
        ASSERT_UCS(ugdr_stream_wait(at_a_, full_, &held, 1));
        ugdr_request_free(held);
        filling_ = async([this, enqueue] {
            for (; enqueued_ < kMany; ++enqueued_) {
                enqueue();
            }
        });
        for (int before = -1; before != enqueued_;) {
            before = enqueued_;
            std::this_thread::sleep_for(10 * kLongEnough);
        }
        EXPECT_LT(enqueued_, kMany) << "the stream is not full";
    }

    // What another thread does comes to its end, and releases the stream.
    void expect_end(const std::future<void>& releasing)
    {
        EXPECT_EQ(releasing.wait_for(5s), std::future_status::ready)
            << "a thread waits for another one's stream";
        EXPECT_TRUE(eventually([&] { return released_.load(); }));
        released_ = true; // all the same
        filling_.wait();
        releasing.wait();
        ASSERT_CUDA(cuStreamSynchronize(full_));
    }

    static constexpr int kMany = 20000;
    CUstream full_ = nullptr;
    std::atomic<bool> released_{false};

  private:
    std::atomic<int> enqueued_{0};
    std::future<void> filling_;
};

// Other threads go on in the same context, the one among them that ends the wait.
TEST_F(FullQueue, StopsWhoFillsItAlone)
{
    CUstream other = stream(), unknown = stream();
    std::atomic<int> done{0};
    ASSERT_UCS(ugdr_condition_destroy(point_of(at_a_, other)));
    fill([&] {
        const auto count = [](void* done) {
            ++*static_cast<std::atomic<int>*>(done);
            return UCS_OK;
        };
        ugdr_condition_h point = point_of(at_a_, full_);
        const ugdr_op_param_t param = on(point, UGDR_OP_FLAG_STREAM_WAIT);
        EXPECT_UCS(ugdr_call(at_a_, count, nullptr, &done, &param, nullptr));
        EXPECT_UCS(ugdr_condition_destroy(point));
    });
    expect_end(async([&] {
        EXPECT_EQ(ugdr_stream_release(at_a_, full_), UCS_ERR_BUSY);
        EXPECT_UCS(ugdr_condition_destroy(point_of(at_a_, unknown)));
        ugdr_condition_h waiting = point_of(at_a_, unknown, UCS_OK, UGDR_CONDITION_FLAG_WAIT);
        int in = 0;
        ugdr_request_h request;
        const ugdr_op_param_t at_waiting = on(waiting);
        EXPECT_UCS(ugdr_tag_recv(at_a_, &in, sizeof(in), 1, ~0ul, &at_waiting, &request));
        EXPECT_UCS(ugdr_condition_destroy(waiting));
        EXPECT_UCS(ugdr_stream_wait(at_a_, other, &request, 1));
        EXPECT_UCS(ugdr_stream_wait_all(at_a_, unknown));
        EXPECT_UCS(ugdr_request_cancel(request));
        EXPECT_EQ(ugdr_request_wait(request), UCS_ERR_CANCELED);
        ugdr_request_free(request);
        ugdr_condition_h point = point_of(at_a_, other);
        const ugdr_op_param_t param = on(point, UGDR_OP_FLAG_STREAM_WAIT);
        EXPECT_UCS(ugdr_call(at_a_, release, nullptr, &released_, &param, nullptr));
        EXPECT_UCS(ugdr_condition_destroy(point));
    }));
    EXPECT_EQ(done, kMany);
}

// What ends the wait is an operation of this stream, at a point before it, that waits for room for
// a wait of its own.
TEST_F(FullQueue, AnOperationStartsBeforeItsWaitHasRoom)
{
    ugdr_condition_h reached = point_of(at_a_, full_);
    ASSERT_CUDA(cuStreamSynchronize(full_));
    fill([&] { EXPECT_UCS(ugdr_condition_destroy(point_of(at_a_, full_))); });
    expect_end(async([&] {
        const ugdr_op_param_t param = on(reached, UGDR_OP_FLAG_STREAM_WAIT);
        EXPECT_UCS(ugdr_call(at_a_, release, nullptr, &released_, &param, nullptr));
    }));
    EXPECT_UCS(ugdr_condition_destroy(reached));
}

// Whoever records it again ends the wait before, another thread's included.
TEST_F(FullQueue, ThreadsRecordOneWaitingCondition)
{
    ugdr_condition_h waiting = point_of(at_a_, full_, UCS_OK, UGDR_CONDITION_FLAG_WAIT);
    fill([&] { EXPECT_UCS(ugdr_condition_destroy(point_of(at_a_, full_))); });
    const auto record = [&] {
        for (int i = 0; i < 100; ++i) {
            EXPECT_UCS(ugdr_condition_record(waiting, full_));
        }
    };
    std::atomic<bool> recorded{false};
    const auto recording = async([&] {
        const auto one = async(record), other = async(record);
        one.wait();
        other.wait();
        recorded = true;
    });
    std::this_thread::sleep_for(kLongEnough);
    released_ = true;
    EXPECT_TRUE(eventually([&] { return recorded.load(); }))
        << "threads that record one condition stop each other";
    while (!recorded && recording.wait_for(kLongEnough) != std::future_status::ready) {
        EXPECT_UCS(ugdr_condition_record(waiting, stream()));
    }
    EXPECT_UCS(ugdr_condition_destroy(waiting));
    expect_end(recording);
}

} // namespace
} // namespace synctest
