// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Whose worker it is, who progresses it, and what is refused.
#include "fixture.hpp"

#include "emu/softcuda/softcuda.h"

#include <filesystem>
#include <iterator>
#include <mutex>
#include <string>

#include <pthread.h>

namespace synctest {
namespace {

using Modes = Cuda;

// Sends one message from a stream and has another wait for it. progress: of both sides by callers.
void ping(ugdr_context_h from, ucp_ep_h ep, ugdr_context_h to, CUstream work,
          const std::function<void()>& progress)
{
    int out = 7, in = 0;
    ugdr_request_h received;
    ASSERT_UCS(ugdr_tag_recv(to, &in, sizeof(in), 1, ~0ul, nullptr, &received));
    ugdr_condition_h point = point_of(from, work);
    const ugdr_op_param_t param = on(point, UGDR_OP_FLAG_STREAM_WAIT);
    ASSERT_UCS(ugdr_tag_send(from, ep, &out, sizeof(out), 1, &param, nullptr));
    ASSERT_UCS(ugdr_condition_destroy(point));
    EXPECT_TRUE(eventually([&] {
        progress();
        return cuStreamQuery(work) == CUDA_SUCCESS && ugdr_request_test(received) == UCS_OK;
    }));
    EXPECT_EQ(in, 7);
    ugdr_request_free(received);
}

void close_ep(Worker& own, ucp_worker_h other, ucp_ep_h ep)
{
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    complete({own.worker, other}, ucp_ep_close_nbx(ep, &param));
}

// What is logged is looked at by the script.
TEST_F(Modes, SingleIsRefused)
{
    Worker single(UCS_THREAD_MODE_SINGLE), serialized(UCS_THREAD_MODE_SERIALIZED);
    ugdr_context_params_t params{};
    params.field_mask = UGDR_CONTEXT_PARAM_FIELD_WORKER;
    params.worker = single.worker;
    create(params, UCS_ERR_UNSUPPORTED);
    params.worker = serialized.worker;
    create(params, UCS_ERR_UNSUPPORTED);
}

TEST_F(Modes, Caller)
{
    Worker a(UCS_THREAD_MODE_SINGLE), b(UCS_THREAD_MODE_SINGLE);
    ucp_ep_h ep = connect(a.worker, b.address().data());
    ugdr_context_params_t params{};
    params.field_mask = UGDR_CONTEXT_PARAM_FIELD_WORKER | UGDR_CONTEXT_PARAM_FIELD_PROGRESS;
    params.progress = UGDR_PROGRESS_CALLER;
    params.worker = a.worker;
    ugdr_context_h at_a = create(params);
    params.worker = b.worker;
    ugdr_context_h at_b = create(params);
    for (int i = 0; i < 10; ++i) {
        ping(at_a, ep, at_b, stream(), [&] {
            ugdr_progress(at_a);
            ugdr_progress(at_b);
        });
    }
    EXPECT_UCS(ugdr_context_destroy(at_a, 0));
    EXPECT_UCS(ugdr_context_destroy(at_b, 0));
    close_ep(a, b.worker, ep);
}

// A trigger does not wait for what the worker has to do: in one round what was triggered starts
// before a message that is there, too, is received.
TEST_F(Modes, TriggersComeBeforeTheWorker)
{
    Worker a(UCS_THREAD_MODE_SINGLE), b(UCS_THREAD_MODE_SINGLE);
    ucp_ep_h ep = connect(a.worker, b.address().data());
    ugdr_context_params_t params{};
    params.field_mask = UGDR_CONTEXT_PARAM_FIELD_WORKER | UGDR_CONTEXT_PARAM_FIELD_PROGRESS;
    params.progress = UGDR_PROGRESS_CALLER;
    params.worker = b.worker;
    ugdr_context_h at_b = create(params);
    CUstream work = stream();
    std::vector<std::string> order;
    ucp_request_param_t told{};
    told.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    told.user_data = &order;
    told.cb.recv = [](void*, ucs_status_t, const ucp_tag_recv_info_t*, void* order) {
        static_cast<std::vector<std::string>*>(order)->push_back("message");
    };
    const auto triggered = [](void* order) {
        static_cast<std::vector<std::string>*>(order)->push_back("trigger");
        return UCS_OK;
    };
    ugdr_op_param_t receive{};
    receive.field_mask = UGDR_OP_PARAM_FIELD_UCP;
    receive.ucp = &told;
    const ucp_request_param_t plain{};
    for (int i = 0; i < 3; ++i) { // connected after the first
        int out = i, in = -1;
        ASSERT_UCS(ugdr_tag_recv(at_b, &in, sizeof(in), 1, ~0ul, &receive, nullptr));
        ugdr_progress(at_b); // is posted
        void* sent = ucp_tag_send_nbx(ep, &out, sizeof(out), 1, &plain);
        if (i == 0) {
            EXPECT_TRUE(eventually([&] {
                ucp_worker_progress(a.worker);
                ugdr_progress(at_b);
                return !order.empty();
            }));
            complete({a.worker, b.worker}, sent);
            order.clear();
            continue;
        }
        complete({a.worker}, sent);
        ugdr_condition_h point = point_of(at_b, work);
        const ugdr_op_param_t param = on(point);
        ASSERT_UCS(ugdr_call(at_b, triggered, nullptr, &order, &param, nullptr));
        ASSERT_UCS(ugdr_condition_destroy(point));
        ASSERT_CUDA(cuStreamSynchronize(work));
        std::this_thread::sleep_for(kLongEnough); // the message is there
        EXPECT_TRUE(eventually([&] {
            ugdr_progress(at_b);
            return order.size() == 2;
        }));
        EXPECT_EQ(order, (std::vector<std::string>{"trigger", "message"}));
        EXPECT_EQ(in, i);
        order.clear();
    }
    EXPECT_UCS(ugdr_context_destroy(at_b, 0));
    close_ep(a, b.worker, ep);
}

// Whoever uses the worker holds the application's lock; the library's thread does, too.
TEST_F(Modes, SerializedWithALock)
{
    struct Lock {
        std::mutex mutex;
        std::atomic<int> uses{0};
        static void lock(void* self)
        {
            static_cast<Lock*>(self)->mutex.lock();
            ++static_cast<Lock*>(self)->uses;
        }
        static void unlock(void* self) { static_cast<Lock*>(self)->mutex.unlock(); }
    } lock_of_a, lock_of_b;
    Worker a(UCS_THREAD_MODE_SERIALIZED), b(UCS_THREAD_MODE_SERIALIZED);
    ucp_ep_h ep = connect(a.worker, b.address().data());
    ugdr_context_params_t params{};
    params.field_mask = UGDR_CONTEXT_PARAM_FIELD_WORKER | UGDR_CONTEXT_PARAM_FIELD_LOCK;
    params.lock = Lock::lock;
    params.unlock = Lock::unlock;
    params.worker = a.worker;
    params.lock_arg = &lock_of_a;
    ugdr_context_h at_a = create(params);
    params.worker = b.worker;
    params.lock_arg = &lock_of_b;
    ugdr_context_h at_b = create(params);
    const auto application = [&] {
        std::scoped_lock guard(lock_of_a.mutex, lock_of_b.mutex);
        ucp_worker_progress(a.worker);
        ucp_worker_progress(b.worker);
    };
    for (int i = 0; i < 10; ++i) {
        ping(at_a, ep, at_b, stream(), application);
    }
    EXPECT_GT(lock_of_a.uses, 0);
    EXPECT_UCS(ugdr_context_destroy(at_a, 0));
    EXPECT_UCS(ugdr_context_destroy(at_b, 0));
    const int uses = lock_of_a.uses;
    std::this_thread::sleep_for(kLongEnough);
    EXPECT_EQ(lock_of_a.uses, uses);
    close_ep(a, b.worker, ep);
}

// Endpoints of the library's worker are made in its thread.
struct Connecting {
    ucp_worker_h worker;
    const void* address;
    ucp_ep_h ep;
    void* closing;

    static ucs_status_t connect(void* self)
    {
        auto& c = *static_cast<Connecting*>(self);
        c.ep = synctest::connect(c.worker, c.address);
        return UCS_OK;
    }
    static ucs_status_t close(void* self)
    {
        auto& c = *static_cast<Connecting*>(self);
        ucp_request_param_t param{};
        c.closing = ucp_ep_close_nbx(c.ep, &param);
        return c.closing == nullptr ? UCS_OK : UCS_INPROGRESS;
    }
    static ucs_status_t closed(void* self)
    {
        auto& c = *static_cast<Connecting*>(self);
        const ucs_status_t status = ucp_request_check_status(c.closing);
        if (status != UCS_INPROGRESS) {
            ucp_request_free(c.closing);
        }
        return status;
    }
};

TEST_F(Modes, WorkerOfTheLibrary)
{
    Worker a, b; // for their contexts alone
    ugdr_context_params_t params{};
    params.field_mask = UGDR_CONTEXT_PARAM_FIELD_UCP_CONTEXT;
    params.ucp_context = a.context;
    ugdr_context_h at_a = create(params);
    params.ucp_context = b.context;
    ugdr_context_h at_b = create(params);
    ugdr_context_attr_t attr{};
    attr.field_mask = UGDR_CONTEXT_ATTR_FIELD_WORKER | UGDR_CONTEXT_ATTR_FIELD_TRIGGER;
    ASSERT_UCS(ugdr_context_query(at_a, &attr));
    EXPECT_EQ(attr.trigger, UGDR_TRIGGER_MEMOPS);
    const ucp_address_t* address = nullptr;
    size_t length = 0;
    ASSERT_UCS(ugdr_worker_address(at_b, &address, &length));
    EXPECT_GT(length, 0u);
    Connecting connecting{attr.worker, address, nullptr, nullptr};
    ugdr_request_h request;
    ASSERT_UCS(ugdr_call(at_a, Connecting::connect, nullptr, &connecting, nullptr, &request));
    ASSERT_UCS(ugdr_request_wait(request));
    ugdr_request_free(request);
    for (int i = 0; i < 10; ++i) {
        ping(at_a, connecting.ep, at_b, stream(), [] {});
    }
    ASSERT_UCS(
        ugdr_call(at_a, Connecting::close, Connecting::closed, &connecting, nullptr, &request));
    ASSERT_UCS(ugdr_request_wait(request));
    ugdr_request_free(request);
    EXPECT_UCS(ugdr_context_destroy(at_a, 0));
    EXPECT_UCS(ugdr_context_destroy(at_b, 0));

    Worker unshared(UCS_THREAD_MODE_SINGLE, false);
    params.ucp_context = unshared.context;
    create(params, UCS_ERR_UNSUPPORTED);
}

// Neither worker nor UCP context: functions alone, in the order of the stream.
TEST_F(Modes, CallsAlone)
{
    ugdr_context_params_t params{};
    ugdr_context_h context = create(params);
    CUstream work = stream();
    struct Work {
        std::atomic<int> starts{0}, tests{0};
    } seen;
    Gate gate(work);
    ugdr_condition_h point = point_of(context, work);
    const ugdr_op_param_t param = on(point, UGDR_OP_FLAG_STREAM_WAIT);
    ASSERT_UCS(ugdr_call(
        context,
        [](void* work) {
            ++static_cast<Work*>(work)->starts;
            return UCS_INPROGRESS;
        },
        [](void* work) { return ++static_cast<Work*>(work)->tests < 3 ? UCS_INPROGRESS : UCS_OK; },
        &seen, &param, nullptr));
    ASSERT_UCS(ugdr_condition_destroy(point));
    std::this_thread::sleep_for(kLongEnough);
    EXPECT_EQ(seen.starts, 0);
    gate.open();
    ASSERT_CUDA(cuStreamSynchronize(work));
    EXPECT_EQ(seen.starts, 1);
    EXPECT_EQ(seen.tests, 3);
    EXPECT_EQ(ugdr_worker_flush(context, nullptr, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_UCS(ugdr_context_destroy(context, 0));
}

// It looks no more often than it naps, so that it keeps no other thread from a processor.
TEST_F(Modes, TheThreadNapsWhileNothingHappens)
{
    ugdr_context_params_t params{};
    ugdr_context_h context = create(params);
    struct Work {
        std::atomic<int> looks{0};
        std::atomic<bool> over{false};
    } work;
    ugdr_request_h request;
    ASSERT_UCS(ugdr_call(
        context, [](void*) { return UCS_INPROGRESS; },
        [](void* work) {
            ++static_cast<Work*>(work)->looks;
            return static_cast<Work*>(work)->over ? UCS_OK : UCS_INPROGRESS;
        },
        &work, nullptr, &request));
    std::this_thread::sleep_for(50ms); // it has yielded for 10 ms
    const int before = work.looks;
    const auto start = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(100ms);
    const int looks = work.looks - before;
    EXPECT_LE(looks, (std::chrono::steady_clock::now() - start) / 50us + 1);
    EXPECT_GT(looks, 0);
    work.over = true;
    EXPECT_UCS(ugdr_request_wait(request));
    ugdr_request_free(request);
    EXPECT_UCS(ugdr_context_destroy(context, 0));
}

TEST_F(Modes, WhatIsRefused)
{
    Worker worker;
    ugdr_context_h context = create_on(worker.worker);
    CUstream work = stream();
    ucp_request_param_t ucp{};
    ugdr_op_param_t param{};
    param.field_mask = UGDR_OP_PARAM_FIELD_UCP;
    param.ucp = &ucp;
    ucp.op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST;
    EXPECT_EQ(ugdr_worker_flush(context, &param, nullptr), UCS_ERR_INVALID_PARAM);
    ucp.op_attr_mask = UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
    EXPECT_EQ(ugdr_worker_flush(context, &param, nullptr), UCS_ERR_INVALID_PARAM);
    ucp.op_attr_mask = 1u << 9;
    EXPECT_EQ(ugdr_worker_flush(context, &param, nullptr), UCS_ERR_UNSUPPORTED);
    param = on(nullptr, UGDR_OP_FLAG_STREAM_WAIT);
    EXPECT_EQ(ugdr_worker_flush(context, &param, nullptr), UCS_ERR_INVALID_PARAM);
    param = on(nullptr, 1u << 20);
    EXPECT_EQ(ugdr_worker_flush(context, &param, nullptr), UCS_ERR_INVALID_PARAM);
    if (SOFTCUDA(softcuda_calls) != nullptr) { // a real driver believes what it is given
        point_of(context, reinterpret_cast<CUstream>(&param), UCS_ERR_INVALID_PARAM);
    }

    // Another stream's condition is no part of a capture, and that none the worse for it.
    CUgraph graph = nullptr;
    ASSERT_CUDA(cuStreamBeginCapture(work, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CUstream other = stream();
    ugdr_condition_h point = point_of(context, other);
    const ugdr_op_param_t flush = on(point, UGDR_OP_FLAG_STREAM_WAIT);
    EXPECT_UCS(ugdr_worker_flush(context, &flush, nullptr));
    EXPECT_UCS(ugdr_condition_destroy(point));
    EXPECT_CUDA(cuStreamEndCapture(work, &graph));
    EXPECT_CUDA(cuGraphDestroy(graph));
    EXPECT_CUDA(cuStreamSynchronize(other));
    EXPECT_UCS(ugdr_context_destroy(context, 0));

    ugdr_context_params_t params{};
    context = nullptr;
    EXPECT_EQ(
        ugdr_context_create_version(UGDR_API_MAJOR, UGDR_API_MINOR + 1, nullptr, &params, &context),
        UCS_ERR_UNSUPPORTED);
    EXPECT_EQ(
        ugdr_context_create_version(UGDR_API_MAJOR, UGDR_API_MINOR, nullptr, &params, &context),
        UCS_OK);
    EXPECT_UCS(ugdr_context_destroy(context, 0));
}

// Words of a CUDA context that is gone are not given to the next one, which has its handle. The
// reset ends this process's primary context of the GPU; other processes' are left alone.
TEST_F(Modes, AGpuThatIsReset)
{
    const CUcontext first = second_gpu();
    if (first == nullptr) {
        GTEST_SKIP() << "there is one GPU";
    }
    ugdr_context_params_t params{};
    ugdr_context_h context = create(params);
    ASSERT_CUDA(cuCtxSetCurrent(first));
    CUstream work = stream();
    ugdr_condition_h kept = point_of(context, work);
    EXPECT_CUDA(cuStreamSynchronize(work));
    EXPECT_UCS(ugdr_stream_release(context, work));
    EXPECT_CUDA(cuDevicePrimaryCtxReset(1));
    const CUcontext next = second_gpu();
    EXPECT_EQ(next, first);
    ASSERT_CUDA(cuCtxSetCurrent(next));
    for (int i = 0; i < 3; ++i) {
        CUstream another = stream();
        EXPECT_UCS(ugdr_condition_destroy(point_of(context, another)));
        EXPECT_CUDA(cuStreamSynchronize(another));
        if (i == 0) {
            EXPECT_UCS(ugdr_condition_destroy(kept)); // gives words back
        }
    }
    ASSERT_CUDA(cuCtxSetCurrent(context_));
    EXPECT_UCS(ugdr_context_destroy(context, 0));
}

// No thread: nor is the worker left that it was to use.
TEST_F(Modes, NothingIsLeftWhereThereIsNoThread)
{
    Worker a;
    ugdr_context_params_t params{};
    params.field_mask = UGDR_CONTEXT_PARAM_FIELD_UCP_CONTEXT;
    params.ucp_context = a.context;
    EXPECT_UCS(ugdr_context_destroy(create(params), 0)); // what is opened once is
    const auto files = [] {
        const std::filesystem::directory_iterator all("/proc/self/fd");
        return std::distance(begin(all), end(all));
    };
    const auto before = files();
    pthread_attr_t usual, huge;
    ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
    ASSERT_EQ(pthread_attr_init(&huge), 0);
    ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 47), 0);
    ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
    ugdr_context_h context = create(params, UCS_ERR_NO_RESOURCE);
    ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
    EXPECT_EQ(files(), before);
    if (context != nullptr) {
        EXPECT_UCS(ugdr_context_destroy(context, 0));
    }
}

// Where the default stream is used, its context has to be current.
TEST_F(Modes, DefaultStreams)
{
    ugdr_context_params_t params{};
    ugdr_context_h context = create(params);
    std::atomic<int> calls{0};
    const auto count = [](void* calls) {
        ++*static_cast<std::atomic<int>*>(calls);
        return UCS_OK;
    };
    for (CUstream work : {CUstream{}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
        ugdr_condition_h point = point_of(context, work);
        const ugdr_op_param_t param = on(point, UGDR_OP_FLAG_STREAM_WAIT);
        EXPECT_UCS(ugdr_call(context, count, nullptr, &calls, &param, nullptr));
        EXPECT_UCS(ugdr_condition_destroy(point));
        EXPECT_CUDA(cuStreamSynchronize(work));
    }
    EXPECT_EQ(calls, 3);
    EXPECT_UCS(ugdr_context_destroy(context, 0));
}

} // namespace
} // namespace synctest
