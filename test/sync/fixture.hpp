// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Two sides in one process: each a UCP context with a worker of its own, an endpoint to the other,
// and a context of libucx-gdr; and CUDA streams that can be held.
#pragma once

#include "eventually.hpp"
#include "sync/ucx-gdr/ugdr.h"

#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <dlfcn.h>

#define ASSERT_CUDA(call) ASSERT_EQ(call, CUDA_SUCCESS)
#define EXPECT_CUDA(call) EXPECT_EQ(call, CUDA_SUCCESS)
#define ASSERT_UCS(call) ASSERT_EQ(call, UCS_OK)
#define EXPECT_UCS(call) EXPECT_EQ(call, UCS_OK)

namespace synctest {

using namespace std::chrono_literals;

constexpr auto kLongEnough = 20ms; // for what must not happen

inline CUdeviceptr address_of(const void* p)
{
    return reinterpret_cast<CUdeviceptr>(p);
}

// A function of softcuda's own (softcuda.h), or nullptr: the driver is a real one.
#define SOFTCUDA(function) reinterpret_cast<decltype(&(function))>(dlsym(RTLD_DEFAULT, #function))

// A UCP context and a worker.
class Worker {
  public:
    explicit Worker(ucs_thread_mode_t mode = UCS_THREAD_MODE_MULTI, bool shared = true)
    {
        ucp_params_t params{};
        params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
        params.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_AMO64;
        params.mt_workers_shared = shared;
        EXPECT_UCS(ucp_init(&params, nullptr, &context));
        ucp_worker_params_t worker_params{};
        worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
        worker_params.thread_mode = mode;
        EXPECT_UCS(ucp_worker_create(context, &worker_params, &worker));
    }
    ~Worker()
    {
        ucp_worker_destroy(worker);
        ucp_cleanup(context);
    }
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    std::vector<char> address() const
    {
        ucp_address_t* own = nullptr;
        size_t length = 0;
        EXPECT_UCS(ucp_worker_get_address(worker, &own, &length));
        const char* bytes = reinterpret_cast<const char*>(own);
        std::vector<char> copy(bytes, bytes + length);
        ucp_worker_release_address(worker, own);
        return copy;
    }

    ucp_context_h context = nullptr;
    ucp_worker_h worker = nullptr;
};

// error handling by UCP: a peer's death ends operations.
inline ucp_ep_h connect(ucp_worker_h worker, const void* address,
                        ucp_err_handling_mode_t mode = UCP_ERR_HANDLING_MODE_PEER)
{
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = static_cast<const ucp_address_t*>(address);
    params.err_mode = mode;
    params.err_handler.cb = [](void*, ucp_ep_h, ucs_status_t) {};
    ucp_ep_h ep = nullptr;
    EXPECT_UCS(ucp_ep_create(worker, &params, &ep));
    return ep;
}

// Completes a request of UCP's by progressing workers.
inline void complete(std::initializer_list<ucp_worker_h> workers, void* request)
{
    if (!UCS_PTR_IS_PTR(request)) {
        EXPECT_UCS(UCS_PTR_STATUS(request));
        return;
    }
    EXPECT_TRUE(eventually([&] {
        for (ucp_worker_h worker : workers) {
            ucp_worker_progress(worker);
        }
        return ucp_request_check_status(request) != UCS_INPROGRESS;
    }));
    ucp_request_free(request);
}

inline ugdr_context_h create(const ugdr_context_params_t& params, ucs_status_t expected = UCS_OK)
{
    ugdr_context_h context = nullptr;
    EXPECT_EQ(ugdr_context_create(&params, &context), expected);
    return context;
}

inline ugdr_context_h create_on(ucp_worker_h worker)
{
    ugdr_context_params_t params{};
    params.field_mask = UGDR_CONTEXT_PARAM_FIELD_WORKER;
    params.worker = worker;
    return create(params);
}

// over_ucp: with UCP in place of HCAs; then ucp gets what has its context.
inline ugdr_context_h create_side(std::optional<Worker>& ucp, bool over_ucp)
{
    ugdr_context_params_t params{};
    if (over_ucp) {
        ucp.emplace();
        params.field_mask = UGDR_CONTEXT_PARAM_FIELD_UCP_CONTEXT | UGDR_CONTEXT_PARAM_FIELD_FLAGS;
        params.ucp_context = ucp->context;
        params.flags = UGDR_CONTEXT_FLAG_NO_DIRECT;
    }
    return create(params);
}

inline ugdr_peer_h create_peer(ugdr_context_h context, unsigned channels)
{
    ugdr_peer_params_t params{};
    params.field_mask = UGDR_PEER_PARAM_FIELD_CHANNELS;
    params.channels = channels;
    ugdr_peer_h peer = nullptr;
    EXPECT_UCS(ugdr_peer_create(context, &params, &peer));
    return peer;
}

inline void connect_peer(ugdr_peer_h near, ugdr_peer_h far)
{
    const void* blob = nullptr;
    size_t length = 0;
    EXPECT_UCS(ugdr_peer_export(far, &blob, &length));
    EXPECT_UCS(ugdr_peer_connect(near, blob, length));
}

inline ugdr_rmem_h import_memory(ugdr_peer_h peer, ugdr_mem_h far)
{
    const void* blob = nullptr;
    size_t length = 0;
    ugdr_rmem_h imported = nullptr;
    EXPECT_UCS(ugdr_mem_export(far, &blob, &length));
    EXPECT_UCS(ugdr_rmem_import(peer, blob, length, &imported));
    return imported;
}

inline ugdr_context_counters_t counters(ugdr_context_h context)
{
    ugdr_context_attr_t attr{};
    attr.field_mask = UGDR_CONTEXT_ATTR_FIELD_COUNTERS;
    EXPECT_UCS(ugdr_context_query(context, &attr));
    return attr.counters;
}

// Parameters of an operation on a condition.
inline ugdr_op_param_t on(ugdr_condition_h condition, uint64_t flags = 0,
                          const ucp_request_param_t* ucp = nullptr)
{
    ugdr_op_param_t param{};
    param.field_mask = UGDR_OP_PARAM_FIELD_CONDITION | UGDR_OP_PARAM_FIELD_FLAGS;
    param.condition = condition;
    param.flags = flags;
    if (ucp != nullptr) {
        param.field_mask |= UGDR_OP_PARAM_FIELD_UCP;
        param.ucp = ucp;
    }
    return param;
}

inline ugdr_condition_h point_of(ugdr_context_h context, CUstream stream,
                                 ucs_status_t expected = UCS_OK, uint64_t flags = 0)
{
    ugdr_condition_params_t params{};
    params.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY | UGDR_CONDITION_PARAM_FIELD_STREAM;
    if (flags != 0) {
        params.field_mask |= UGDR_CONDITION_PARAM_FIELD_FLAGS;
    }
    params.category = UGDR_CONDITION_STREAM;
    params.stream = stream;
    params.flags = flags;
    ugdr_condition_h condition = nullptr;
    EXPECT_EQ(ugdr_condition_create(context, &params, &condition), expected);
    return condition;
}

// CUDA's primary context of device 0, and what is made in it.
class Cuda : public testing::Test {
  protected:
    void SetUp() override
    {
        ASSERT_CUDA(cuInit(0));
        ASSERT_CUDA(cuDevicePrimaryCtxRetain(&context_, 0));
        ASSERT_CUDA(cuCtxSetCurrent(context_));
    }

    // Another GPU's primary context; nullptr where there is one GPU.
    static CUcontext second_gpu()
    {
        int count = 0;
        CUcontext context = nullptr;
        EXPECT_CUDA(cuDeviceGetCount(&count));
        if (count > 1) {
            EXPECT_CUDA(cuDevicePrimaryCtxRetain(&context, 1));
        }
        return context;
    }

    // Of the current context, as the others.
    CUstream stream()
    {
        CUstream made = nullptr;
        EXPECT_CUDA(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
        return made;
    }

    template <typename Value>
    Value* on_gpu(size_t count)
    {
        CUdeviceptr memory = 0;
        EXPECT_CUDA(cuMemAlloc(&memory, count * sizeof(Value)));
        EXPECT_CUDA(cuMemsetD8(memory, 0, count * sizeof(Value)));
        return reinterpret_cast<Value*>(memory);
    }
    template <typename Value>
    static std::vector<Value> copy_of(const Value* memory, size_t count)
    {
        std::vector<Value> copy(count);
        EXPECT_CUDA(cuMemcpyDtoH(copy.data(), address_of(memory), count * sizeof(Value)));
        return copy;
    }

    // Host memory that CUDA knows.
    template <typename Value>
    Value* pinned(size_t count)
    {
        void* memory = nullptr;
        EXPECT_CUDA(cuMemHostAlloc(&memory, count * sizeof(Value), 0));
        return static_cast<Value*>(memory);
    }

    CUcontext context_ = nullptr;
};

// Holds a stream until open() is called, without stream memory operations.
class Gate {
  public:
    explicit Gate(CUstream stream)
    {
        EXPECT_CUDA(cuLaunchHostFunc(
            stream,
            [](void* gate) {
                auto& open = static_cast<Gate*>(gate)->open_;
                open.wait(false);
            },
            this));
    }
    void open()
    {
        open_ = true;
        open_.notify_all();
    }

  private:
    std::atomic<bool> open_{false};
};

// Two sides, connected, whose workers are used by libucx-gdr's threads and, where somebody runs
// them, by an application's.
class Sides : public Cuda {
  protected:
    void SetUp() override
    {
        Cuda::SetUp();
        a_.emplace();
        b_.emplace();
        to_b_ = connect(a_->worker, b_->address().data());
        to_a_ = connect(b_->worker, a_->address().data());
        exchange(*a_, *b_, to_b_);
        exchange(*b_, *a_, to_a_);
        at_a_ = create_on(a_->worker);
        at_b_ = create_on(b_->worker);
    }

    void TearDown() override
    {
        stop_application();
        for (ugdr_context_h context : {at_a_, at_b_}) {
            if (context != nullptr) {
                EXPECT_UCS(ugdr_context_destroy(context, 0));
            }
        }
        close(a_->worker, b_->worker, to_b_);
        close(b_->worker, a_->worker, to_a_);
    }

    // An application's thread that progresses both workers all the time.
    void start_application()
    {
        application_ = std::thread([this] {
            EXPECT_CUDA(cuCtxSetCurrent(context_)); // for what its callbacks copy
            while (!stopping_) {
                ucp_worker_progress(a_->worker);
                ucp_worker_progress(b_->worker);
                std::this_thread::yield();
            }
        });
    }
    void stop_application()
    {
        stopping_ = true;
        if (application_.joinable()) {
            application_.join();
        }
    }

    static void exchange(Worker& from, Worker& to, ucp_ep_h ep)
    {
        char out = 1, in = 0;
        ucp_request_param_t param{};
        void* receive = ucp_tag_recv_nbx(to.worker, &in, 1, 99, ~0ul, &param);
        complete({from.worker, to.worker}, ucp_tag_send_nbx(ep, &out, 1, 99, &param));
        complete({from.worker, to.worker}, receive);
    }

    static void close(ucp_worker_h own, ucp_worker_h other, ucp_ep_h ep,
                      unsigned flags = UCP_EP_CLOSE_FLAG_FORCE)
    {
        ucp_request_param_t param{};
        param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = flags;
        complete({own, other}, ucp_ep_close_nbx(ep, &param));
    }

    std::optional<Worker> a_, b_;
    ucp_ep_h to_b_ = nullptr, to_a_ = nullptr;
    ugdr_context_h at_a_ = nullptr, at_b_ = nullptr;

  private:
    std::thread application_;
    std::atomic<bool> stopping_{false};
};

// The same with conditions in graphs and of kernels, of whose end is told later.
class Persistent : public Sides {
  protected:
    void TearDown() override
    {
        for (ugdr_context_h* context : {&at_a_, &at_b_}) {
            EXPECT_TRUE(*context == nullptr ||
                        eventually([&] { return ugdr_context_destroy(*context, 0) == UCS_OK; }));
            *context = nullptr;
        }
        Sides::TearDown();
    }

    // In a graph.
    static ugdr_condition_h add_condition(ugdr_context_h context, CUgraph graph,
                                          std::vector<CUgraphNode> dependencies = {},
                                          uint64_t flags = 0, ucs_status_t expected = UCS_OK)
    {
        ugdr_condition_params_t params{};
        params.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY | UGDR_CONDITION_PARAM_FIELD_GRAPH |
                            UGDR_CONDITION_PARAM_FIELD_FLAGS;
        params.category = UGDR_CONDITION_GRAPH;
        params.graph = graph;
        params.dependencies = dependencies.data();
        params.num_dependencies = dependencies.size();
        params.flags = flags;
        ugdr_condition_h condition = nullptr;
        EXPECT_EQ(ugdr_condition_create(context, &params, &condition), expected);
        return condition;
    }

    // At the point where the stream is, also in a capture.
    static void send(ugdr_context_h from, ucp_ep_h ep, CUstream stream, const void* out,
                     size_t bytes, uint64_t flags = UGDR_OP_FLAG_STREAM_WAIT,
                     ugdr_request_h* request = nullptr)
    {
        ugdr_condition_h point = point_of(from, stream);
        const ugdr_op_param_t param = on(point, flags);
        EXPECT_UCS(ugdr_tag_send(from, ep, out, bytes, 1, &param, request));
        EXPECT_UCS(ugdr_condition_destroy(point));
    }
    static void receive(ugdr_context_h at, CUstream stream, void* in, size_t bytes,
                        uint64_t flags = UGDR_OP_FLAG_STREAM_WAIT,
                        ugdr_request_h* request = nullptr)
    {
        ugdr_condition_h point = point_of(at, stream);
        const ugdr_op_param_t param = on(point, flags);
        EXPECT_UCS(ugdr_tag_recv(at, in, bytes, 1, ~0ul, &param, request));
        EXPECT_UCS(ugdr_condition_destroy(point));
    }
};

} // namespace synctest
