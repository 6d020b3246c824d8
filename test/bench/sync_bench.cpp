// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What stream-triggered operations cost, beside streams that the CPU waits for. Two sides, threads
// of one process, on one GPU or on two; contrib/bench-sync runs it. Prints lines "NAME key=value
// ...", times in microseconds.
//
//   pingpong WAY SIZE  work on a stream, message, work on the other side's stream, message back:
//                      half of a round. WAY: cpu (cuStreamSynchronize, ucp_tag_send_nbx), stream
//                      (libucx-gdr), batch (the same, with UGDR_CONDITION_FLAG_WAIT), kernel (which
//                      does the work, triggers and waits), prepared (prepared transfers, which a
//                      stream makes ready and waits for)
//   trigger WAY        from the release of a stream to a function that runs by it. WAY: stream
//                      (which waits by a memory operation), kernel (which spins), function
//                      (cuLaunchHostFunc). store: to what the spinning kernel itself stores; after:
//                      from there to the function behind that kernel. bare, bare kernel: as stream
//                      and kernel without the library, to a thread that looks at the word that a
//                      memory operation writes. host: the library's share, from a word that the CPU
//                      has written to the function
//   graph WAY          8 bytes each way at a time and a little work, a hundred times in one graph
//                      of each side: one time, while the threads that launched sleep. WAY:
//                      captured, batch (captured, with UGDR_CONDITION_FLAG_WAIT), explicit
//                      (UGDR_CONDITION_GRAPH), kernel. bare, bare kernel: one graph as the explicit
//                      one and that of kernels, without the library and messages: a thread looks at
//                      the words and answers. host: one exchange, threads stand for the kernels
//   launching WAY      CPU time that one of these threads needs for all of it, and, on emulated
//                      GPUs, calls=N of CUDA in the process meanwhile, the two launches included,
//                      UCX's questions what memory a buffer is not
//   enqueue N          CPU time of a condition, N operations and a wait; batch: of one operation
//                      with UGDR_CONDITION_FLAG_WAIT; event: of cuEventRecord
//
// Kernels run on real GPUs alone; --kernels names what a compiler made of test/sync/partitions.cu.
#include "sync/ucx-gdr/ugdr.h"
#include "sync/ucx-gdr/ugdr_device.cuh"

#include "options.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <sched.h>
#include <time.h>

namespace {

using namespace bench;

// ---- kernels

// spin waits until *word is value; stores it where out says, if that is anywhere.
constexpr const char* kKernels = R"(
.version 6.0
.target sm_70
.address_size 64
.visible .entry nothing() { ret; }
.visible .entry spin(.param .u64 word, .param .u64 value, .param .u64 out)
{
    .reg .pred %done;
    .reg .u64 %word, %value, %now;
    ld.param.u64 %word, [word];
    ld.param.u64 %value, [value];
look:
    ld.acquire.sys.u64 %now, [%word];
    setp.ne.u64 %done, %now, %value;
    @%done bra look;
    ld.param.u64 %word, [out];
    setp.eq.u64 %done, %word, 0;
    @%done ret;
    st.release.sys.u64 [%word], %value;
    ret;
}
)";

// One of the two.
struct Side {
    Side(const Options& options, int index) : device(options.device)
    {
        CUdevice gpu;
        CU(cuDeviceGet, &gpu, index % options.gpus);
        CU(cuDevicePrimaryCtxRetain, &context, gpu);
        CU(cuCtxSetCurrent, context);
        CU(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
        CU(cuMemAlloc, &work, 4096);
        spin = kernel(kKernels, "spin");
        if (spin != nullptr) {
            nothing = kernel(kKernels, "nothing");
        }
        if (spin != nullptr && !options.kernels.empty()) {
            exchange = kernel(content_of(options.kernels).c_str(), "sync_exchange");
        }
        if (options.device) {
            CUdeviceptr memory;
            CU(cuMemAlloc, &memory, 2 * options.largest);
            buffer = reinterpret_cast<char*>(memory);
        } else {
            void* memory;
            CU(cuMemHostAlloc, &memory, 2 * options.largest, CU_MEMHOSTALLOC_PORTABLE);
            std::memset(memory, 0, 2 * options.largest);
            buffer = static_cast<char*>(memory);
        }
        ucp_params_t params{};
        params.field_mask = UCP_PARAM_FIELD_FEATURES;
        params.features = UCP_FEATURE_TAG;
        check(ucp_init(&params, nullptr, &ucp), "ucp_init");
        ucp_worker_params_t worker_params{};
        worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
        worker_params.thread_mode = UCS_THREAD_MODE_MULTI;
        check(ucp_worker_create(ucp, &worker_params, &worker), "ucp_worker_create");
    }
    void connect(const Side& other)
    {
        ucp_address_t* address = nullptr;
        size_t length = 0;
        check(ucp_worker_get_address(other.worker, &address, &length), "ucp_worker_get_address");
        ucp_ep_params_t params{};
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address = address;
        check(ucp_ep_create(worker, &params, &ep), "ucp_ep_create");
        ucp_worker_release_address(other.worker, address);
    }
    void open_sync()
    {
        ugdr_context_params_t params{};
        params.field_mask = UGDR_CONTEXT_PARAM_FIELD_WORKER;
        params.worker = worker;
        check(ugdr_context_create(&params, &sync), "ugdr_context_create");
    }
    void close_sync()
    {
        while (ugdr_context_destroy(sync, 0) == UCS_ERR_BUSY) {
            sched_yield();
        }
    }

    // A little something for the GPU to do: a kernel, or, where there are none, what comes near.
    void launch()
    {
        if (nothing != nullptr) {
            bench::launch(nothing, 1, stream, {});
        } else {
            CU(cuMemsetD32Async, work, 1, 64, stream);
        }
    }
    CUgraphNode add_work(CUgraph graph, const std::vector<CUgraphNode>& behind)
    {
        CUgraphNode node;
        if (nothing != nullptr) {
            CUDA_KERNEL_NODE_PARAMS kernel{};
            kernel.func = nothing;
            kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
            kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
            CU(cuGraphAddKernelNode, &node, graph, behind.data(), behind.size(), &kernel);
        } else {
            CUDA_MEMSET_NODE_PARAMS memset{};
            memset.dst = work;
            memset.value = 1;
            memset.elementSize = 4;
            memset.width = 64;
            memset.height = 1;
            CU(cuGraphAddMemsetNode, &node, graph, behind.data(), behind.size(), &memset, context);
        }
        return node;
    }
    void synchronize() { CU(cuStreamSynchronize, stream); }

    void complete(void* request)
    {
        if (request == nullptr) {
            return;
        }
        if (UCS_PTR_IS_ERR(request)) {
            check(UCS_PTR_STATUS(request), "a message");
        }
        while (ucp_request_check_status(request) == UCS_INPROGRESS) {
            ucp_worker_progress(worker);
        }
        ucp_request_free(request);
    }
    void send(size_t size)
    {
        const ucp_request_param_t param{};
        complete(ucp_tag_send_nbx(ep, buffer, size, 1, &param));
    }
    void receive(size_t size)
    {
        const ucp_request_param_t param{};
        complete(ucp_tag_recv_nbx(worker, buffer, size, 1, ~ucp_tag_t{0}, &param));
    }

    const bool device; // where the messages are
    CUcontext context;
    CUstream stream;
    CUdeviceptr work;
    CUfunction spin, nothing = nullptr, exchange = nullptr;
    char* buffer; // of two of the largest messages
    ucp_context_h ucp = nullptr;
    ucp_worker_h worker = nullptr;
    ucp_ep_h ep = nullptr;
    ugdr_context_h sync = nullptr;
};

ugdr_condition_h point_of(Side& side, uint64_t flags = 0)
{
    ugdr_condition_params_t params{};
    params.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY | UGDR_CONDITION_PARAM_FIELD_STREAM |
                        UGDR_CONDITION_PARAM_FIELD_FLAGS;
    params.category = UGDR_CONDITION_STREAM;
    params.stream = side.stream;
    params.flags = flags;
    ugdr_condition_h condition;
    check(ugdr_condition_create(side.sync, &params, &condition), "ugdr_condition_create");
    return condition;
}

ugdr_op_param_t on(ugdr_condition_h condition, uint64_t flags)
{
    ugdr_op_param_t param{};
    param.field_mask = UGDR_OP_PARAM_FIELD_CONDITION | UGDR_OP_PARAM_FIELD_FLAGS;
    param.condition = condition;
    param.flags = flags;
    return param;
}

// ---- ping-pong

// The first side: `times` gets the ends of its rounds.
using Times = std::vector<Clock::time_point>;

void by_cpu(Side& side, bool first, size_t size, int rounds, Times& times)
{
    for (int i = 0; i < rounds; ++i) {
        if (!first) {
            side.receive(size);
        }
        side.launch();
        side.synchronize();
        side.send(size);
        if (first) {
            side.receive(size);
            times.push_back(Clock::now());
        }
    }
}

// Notes the ends of receives; as far ahead of the GPU as it has room.
struct Rounds {
    static constexpr int kAhead = 64;

    explicit Rounds(Times* times_) : times(times_)
    {
        tell.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
        tell.user_data = this;
        tell.cb.recv = [](void*, ucs_status_t status, const ucp_tag_recv_info_t*, void* data) {
            if (status == UCS_ERR_CANCELED) {
                return;
            }
            check(status, "a receive");
            auto& to = *static_cast<Rounds*>(data);
            if (to.times != nullptr) {
                to.times->push_back(Clock::now());
            }
            to.over.fetch_add(1);
        };
    }
    void wait_for_room(int begun) const
    {
        while (begun - over > kAhead) {
            sched_yield();
        }
    }

    Times* times;
    std::atomic<int> over{0};
    ucp_request_param_t tell{}; // of receives
};

// flags: of conditions.
void by_conditions(Side& side, bool first, size_t size, int rounds, Times& times, uint64_t flags)
{
    const uint64_t wait = flags != 0 ? 0 : UGDR_OP_FLAG_STREAM_WAIT;
    Rounds seen(first ? &times : nullptr);
    const auto receive = [&](ugdr_condition_h point) {
        ugdr_op_param_t param = on(point, wait);
        param.field_mask |= UGDR_OP_PARAM_FIELD_UCP;
        param.ucp = &seen.tell;
        check(ugdr_tag_recv(side.sync, side.buffer, size, 1, ~ucp_tag_t{0}, &param, nullptr),
              "ugdr_tag_recv");
    };
    const auto send = [&](ugdr_condition_h point) {
        const ugdr_op_param_t param = on(point, 0);
        check(ugdr_tag_send(side.sync, side.ep, side.buffer, size, 1, &param, nullptr),
              "ugdr_tag_send");
    };
    if (!first) {
        ugdr_condition_h point = point_of(side, flags);
        receive(point);
        ugdr_condition_destroy(point);
    }
    for (int i = 0; i < rounds; ++i) {
        seen.wait_for_room(i);
        side.launch();
        ugdr_condition_h point = point_of(side, flags);
        send(point);
        if (first || i + 1 < rounds) {
            receive(point);
        }
        ugdr_condition_destroy(point);
    }
    side.synchronize();
}

void by_stream(Side& side, bool first, size_t size, int rounds, Times& times)
{
    by_conditions(side, first, size, rounds, times, 0);
}

void by_batch(Side& side, bool first, size_t size, int rounds, Times& times)
{
    by_conditions(side, first, size, rounds, times, UGDR_CONDITION_FLAG_WAIT);
}

// What kernels trigger: a message out and one in, each time.
class ByKernels {
  public:
    ByKernels(Side& side, size_t size, const ucp_request_param_t& send,
              const ucp_request_param_t& receive)
        : side_(side)
    {
        ugdr_condition_params_t params{};
        params.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY;
        params.category = UGDR_CONDITION_KERNEL;
        check(ugdr_condition_create(side.sync, &params, &condition_), "ugdr_condition_create");
        ugdr_condition_attr_t attr{};
        attr.field_mask = UGDR_CONDITION_ATTR_FIELD_DEVICE;
        check(ugdr_condition_query(condition_, &attr), "ugdr_condition_query");
        device_ = attr.device;
        ugdr_op_param_t param = on(condition_, 0);
        param.field_mask |= UGDR_OP_PARAM_FIELD_UCP;
        param.ucp = &send;
        check(ugdr_tag_send(side.sync, side.ep, side.buffer, size, 1, &param, nullptr),
              "ugdr_tag_send");
        param.ucp = &receive;
        check(ugdr_tag_recv(side.sync, side.buffer + size, size, 1, ~ucp_tag_t{0}, &param,
                            &received_),
              "ugdr_tag_recv");
    }
    // A receive that nothing was sent for is cancelled.
    ~ByKernels()
    {
        check(ugdr_request_cancel(received_), "ugdr_request_cancel");
        ugdr_request_free(received_);
        ugdr_condition_destroy(condition_);
    }
    ByKernels(const ByKernels&) = delete;
    ByKernels& operator=(const ByKernels&) = delete;

    // A kernel whose end comes behind the next message.
    void enqueue() const { launch(side_.exchange, 1, side_.stream, {&device_}); }
    // What that kernel does.
    void exchange_by_host() const
    {
        ugdr_dev_trigger_waited(device_);
        ugdr_dev_wait(device_);
    }

  private:
    Side& side_;
    ugdr_condition_h condition_;
    ugdr_dev_condition_t device_;
    ugdr_request_h received_;
};

void by_kernel(Side& side, bool first, size_t size, int rounds, Times& times)
{
    Rounds seen(first ? &times : nullptr);
    const ByKernels both(side, size, {}, seen.tell);
    if (!first) {
        side.receive(size);
    }
    for (int i = 0; i < rounds; ++i) {
        seen.wait_for_room(i);
        if (first || i + 1 < rounds) {
            both.enqueue();
        }
    }
    if (!first) { // nothing comes any more
        ugdr_condition_h point = point_of(side);
        const ugdr_op_param_t param = on(point, 0);
        check(ugdr_tag_send(side.sync, side.ep, side.buffer, size, 1, &param, nullptr),
              "ugdr_tag_send");
        ugdr_condition_destroy(point);
    }
    side.synchronize();
}

// What the sides show each other, and where they meet for that.
std::string blobs[2];
std::barrier meeting(2);

ugdr_peer_h meet(const Side& side, bool first)
{
    ugdr_peer_params_t params{};
    params.field_mask = UGDR_PEER_PARAM_FIELD_CHANNELS;
    params.channels = 1;
    ugdr_peer_h peer;
    check(ugdr_peer_create(side.sync, &params, &peer), "ugdr_peer_create");
    const void* blob = nullptr;
    size_t length = 0;
    check(ugdr_peer_export(peer, &blob, &length), "ugdr_peer_export");
    blobs[first ? 0 : 1].assign(static_cast<const char*>(blob), length);
    meeting.arrive_and_wait();
    const std::string& others = blobs[first ? 1 : 0];
    check(ugdr_peer_connect(peer, others.data(), others.size()), "ugdr_peer_connect");
    meeting.arrive_and_wait();
    return peer;
}

ugdr_transfer_h prepare(const Side& side, ugdr_peer_h peer, ugdr_transfer_side_t which,
                        char* buffer, size_t size, uint64_t tag)
{
    ugdr_transfer_params_t params{};
    params.field_mask = UGDR_TRANSFER_PARAM_FIELD_PEER | UGDR_TRANSFER_PARAM_FIELD_BUFFER |
                        UGDR_TRANSFER_PARAM_FIELD_TAG;
    params.peer = peer;
    params.buffer = buffer;
    params.length = size;
    params.tag = tag;
    ugdr_transfer_h transfer;
    check(ugdr_transfer_create(side.sync, which, &params, &transfer), "ugdr_transfer_create");
    return transfer;
}

// The stream makes ready what goes out, and looks at the word of what comes in. A round ends at the
// point where the stream has gone on and done the next work.
void by_prepared(Side& side, bool first, size_t size, int rounds, Times& times)
{
    struct Points {
        Times* times;
        std::atomic<int> over{0};
    } points{first ? &times : nullptr};
    const auto note = [](void* noted) {
        auto& to = *static_cast<Points*>(noted);
        if (to.times != nullptr) {
            to.times->push_back(Clock::now());
        }
        to.over.fetch_add(1);
        return UCS_OK;
    };
    const ugdr_peer_h peer = meet(side, first);
    const uint64_t out = first ? 1 : 2;
    const ugdr_transfer_h from = prepare(side, peer, UGDR_TRANSFER_SEND, side.buffer, size, out),
                          to = prepare(side, peer, UGDR_TRANSFER_RECV, side.buffer + size, size,
                                       3 - out);
    while (ugdr_transfer_test_match(from) == UCS_INPROGRESS ||
           ugdr_transfer_test_match(to) == UCS_INPROGRESS) {
        sched_yield();
    }
    const auto receive = [&](ugdr_condition_h point) {
        check(ugdr_transfer_start_on(to, point), "ugdr_transfer_start_on");
    };
    if (!first) {
        ugdr_condition_h point = point_of(side);
        receive(point);
        ugdr_condition_destroy(point);
        check(ugdr_transfer_wait_on(to, side.stream), "ugdr_transfer_wait_on");
    }
    for (int i = 0; i < rounds; ++i) {
        while (i - points.over > Rounds::kAhead) {
            sched_yield();
        }
        side.launch();
        ugdr_condition_h point = point_of(side);
        const bool receives = first || i + 1 < rounds;
        if (receives) {
            receive(point);
        }
        check(ugdr_transfer_start_on(from, point), "ugdr_transfer_start_on");
        check(ugdr_transfer_ready_on(from, 0, 1, point), "ugdr_transfer_ready_on");
        const ugdr_op_param_t param = on(point, 0);
        check(ugdr_call(side.sync, note, nullptr, &points, &param, nullptr), "ugdr_call");
        ugdr_condition_destroy(point);
        if (receives) {
            check(ugdr_transfer_wait_on(to, side.stream), "ugdr_transfer_wait_on");
        }
    }
    side.synchronize();
    for (ugdr_transfer_h transfer : {from, to}) {
        while (ugdr_transfer_destroy(transfer) == UCS_ERR_BUSY) {
            sched_yield();
        }
    }
    meeting.arrive_and_wait();
    check(ugdr_peer_destroy(peer), "ugdr_peer_destroy");
}

using Way = void (*)(Side&, bool, size_t, int, Times&);

void pingpong(const char* name, Way way, bool sync, Side& a, Side& b, size_t size, int rounds)
{
    const int warm_up = rounds / 10 + 1;
    Times times{};
    times.reserve(static_cast<size_t>(rounds + warm_up));
    std::barrier both(2);
    const auto run = [&](Side& side, bool first) {
        CU(cuCtxSetCurrent, side.context);
        if (sync) {
            side.open_sync();
        }
        both.arrive_and_wait();
        way(side, first, size, rounds + warm_up, times);
        both.arrive_and_wait();
        if (sync) {
            side.close_sync();
        }
    };
    std::thread other([&] { run(b, false); });
    run(a, true);
    other.join();
    std::vector<double> halves;
    for (size_t i = static_cast<size_t>(warm_up); i < times.size(); ++i) {
        halves.push_back(microseconds(times[i] - times[i - 1]) / 2);
    }
    report(std::string("pingpong ") + name + " " + std::to_string(size), halves);
}

// ---- trigger

struct Seen {
    std::atomic<bool> yes{false};
    Clock::time_point when;

    static ucs_status_t call(void* self)
    {
        note(self);
        return UCS_OK;
    }
    static void note(void* self)
    {
        static_cast<Seen*>(self)->when = Clock::now();
        static_cast<Seen*>(self)->yes = true;
    }
};

// A word in host memory, for the GPU to look at or to write.
struct Word {
    Word()
    {
        void* memory;
        CU(cuMemHostAlloc, &memory, 64, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
        host = static_cast<uint64_t*>(memory);
        device = reinterpret_cast<CUdeviceptr>(memory);
        *host = 0;
    }
    void store(uint64_t value) { std::atomic_ref(*host).store(value, std::memory_order_release); }
    uint64_t load() { return std::atomic_ref(*host).load(std::memory_order_acquire); }

    uint64_t* host;
    CUdeviceptr device;
};

enum class Trigger { stream, kernel, store, after, function, bare, bare_kernel };

void trigger(const char* name, Trigger way, Side& side, int rounds)
{
    Word gate, stored;
    std::vector<double> times;
    for (uint64_t i = 1; i <= static_cast<uint64_t>(rounds); ++i) {
        Seen seen;
        const bool stores = way == Trigger::store || way == Trigger::after;
        const CUdeviceptr out = stores ? stored.device : 0;
        const bool bare = way == Trigger::bare || way == Trigger::bare_kernel;
        const bool by_word = bare || way == Trigger::store;
        if (way == Trigger::kernel || way == Trigger::bare_kernel || stores) {
            launch(side.spin, 1, side.stream, {&gate.device, &i, &out});
        } else {
            CU(cuStreamWaitValue64, side.stream, gate.device, i, CU_STREAM_WAIT_VALUE_GEQ);
        }
        if (way == Trigger::function) {
            CU(cuLaunchHostFunc, side.stream, Seen::note, &seen);
        } else if (bare) {
            CU(cuStreamWriteValue64, side.stream, stored.device, i, CU_STREAM_WRITE_VALUE_DEFAULT);
        } else if (way != Trigger::store) {
            ugdr_condition_h point = point_of(side);
            const ugdr_op_param_t param = on(point, 0);
            check(ugdr_call(side.sync, Seen::call, nullptr, &seen, &param, nullptr), "ugdr_call");
            ugdr_condition_destroy(point);
        }
        const auto settled = Clock::now() + std::chrono::microseconds(30);
        while (Clock::now() < settled) {
        }
        auto begin = Clock::now();
        gate.store(i);
        if (way == Trigger::after) {
            while (stored.load() != i) {
            }
            begin = Clock::now();
        }
        while (by_word ? stored.load() != i : !seen.yes) {
        }
        times.push_back(microseconds((by_word ? Clock::now() : seen.when) - begin));
        side.synchronize();
    }
    report(std::string("trigger ") + name, times);
}

// Whether the words of a kernel's condition have the same address for the CPU.
bool host_may_trigger()
{
    CUdevice gpu;
    int same_address = 0;
    CU(cuCtxGetDevice, &gpu);
    CU(cuDeviceGetAttribute, &same_address,
       CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, gpu);
    return same_address != 0;
}

// The CPU stands for a kernel.
void trigger_by_host(Side& side, int rounds)
{
    if (!host_may_trigger()) {
        return;
    }
    ugdr_condition_params_t params{};
    params.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY;
    params.category = UGDR_CONDITION_KERNEL;
    ugdr_condition_h condition;
    check(ugdr_condition_create(side.sync, &params, &condition), "ugdr_condition_create");
    ugdr_condition_attr_t attr{};
    attr.field_mask = UGDR_CONDITION_ATTR_FIELD_DEVICE;
    check(ugdr_condition_query(condition, &attr), "ugdr_condition_query");
    Seen seen;
    const ugdr_op_param_t param = on(condition, 0);
    check(ugdr_call(side.sync, Seen::call, nullptr, &seen, &param, nullptr), "ugdr_call");
    std::vector<double> times;
    for (int i = 0; i < rounds; ++i) {
        const auto settled = Clock::now() + std::chrono::microseconds(30);
        while (Clock::now() < settled) {
        }
        seen.yes = false;
        const auto begin = Clock::now();
        ugdr_dev_trigger(attr.device);
        while (!seen.yes) {
        }
        times.push_back(microseconds(seen.when - begin));
        ugdr_dev_wait(attr.device);
    }
    ugdr_condition_destroy(condition);
    report("trigger host", times);
}

// ---- graphs

// Sleeps until it is told, which costs the thread no CPU time.
class Bell {
  public:
    void ring()
    {
        rung_ = true;
        rung_.notify_one();
    }
    static void ring_it(void* bell) { static_cast<Bell*>(bell)->ring(); }
    void sleep()
    {
        rung_.wait(false);
        rung_ = false;
    }

  private:
    std::atomic<bool> rung_{false};
};

enum class Graph { captured, batch, explicitly, kernel };

void add_bell(CUgraph graph, const std::vector<CUgraphNode>& behind, Bell& bell)
{
    CUDA_HOST_NODE_PARAMS ring{};
    ring.fn = Bell::ring_it;
    ring.userData = &bell;
    CUgraphNode node;
    CU(cuGraphAddHostNode, &node, graph, behind.data(), behind.size(), &ring);
}

// Else UCX asks CUDA each time what memory it is.
ucp_request_param_t known_memory(const Side& side)
{
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.memory_type = side.device ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
    return param;
}

// Work, then a message out and one in, again and again, and the bell.
CUgraphExec make_graph(Graph way, Side& side, const ByKernels* kernels, int times, Bell& bell)
{
    const ucp_request_param_t known = known_memory(side);
    const auto attach = [&](ugdr_condition_h condition, uint64_t flags) {
        ugdr_op_param_t param = on(condition, 0);
        param.field_mask |= UGDR_OP_PARAM_FIELD_UCP;
        param.ucp = &known;
        check(ugdr_tag_send(side.sync, side.ep, side.buffer, 8, 1, &param, nullptr),
              "ugdr_tag_send");
        param.flags = flags;
        check(ugdr_tag_recv(side.sync, side.buffer + 8, 8, 1, ~ucp_tag_t{0}, &param, nullptr),
              "ugdr_tag_recv");
        ugdr_condition_destroy(condition);
    };
    CUgraph graph;
    if (way == Graph::explicitly) {
        CU(cuGraphCreate, &graph, 0u);
        std::vector<CUgraphNode> last;
        for (int i = 0; i < times; ++i) {
            const CUgraphNode work = side.add_work(graph, last);
            ugdr_condition_params_t params{};
            params.field_mask =
                UGDR_CONDITION_PARAM_FIELD_CATEGORY | UGDR_CONDITION_PARAM_FIELD_GRAPH;
            params.category = UGDR_CONDITION_GRAPH;
            params.graph = graph;
            params.dependencies = &work;
            params.num_dependencies = 1;
            ugdr_condition_h condition;
            check(ugdr_condition_create(side.sync, &params, &condition), "ugdr_condition_create");
            ugdr_condition_attr_t attr{};
            attr.field_mask = UGDR_CONDITION_ATTR_FIELD_NODES;
            check(ugdr_condition_query(condition, &attr), "ugdr_condition_query");
            last = {attr.done_node};
            attach(condition, 0);
        }
        add_bell(graph, last, bell);
    } else {
        CU(cuStreamBeginCapture, side.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        for (int i = 0; i < times; ++i) {
            if (way == Graph::kernel) {
                kernels->enqueue();
                continue;
            }
            side.launch();
            if (way == Graph::batch) {
                attach(point_of(side, UGDR_CONDITION_FLAG_WAIT), 0);
            } else {
                attach(point_of(side), UGDR_OP_FLAG_STREAM_WAIT);
            }
        }
        CU(cuLaunchHostFunc, side.stream, Bell::ring_it, &bell);
        CU(cuStreamEndCapture, side.stream, &graph);
    }
    CUgraphExec executable;
    CU(cuGraphInstantiateWithFlags, &executable, graph, 0ull);
    CU(cuGraphDestroy, graph);
    return executable;
}

Clock::duration thread_time()
{
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

void graph(const char* name, Graph way, Side& a, Side& b, int rounds)
{
    constexpr int kTimes = 100;
    static const auto driver = dlopen("libcuda.so.1", RTLD_NOW);
    static const auto all = reinterpret_cast<uint64_t (*)()>(dlsym(driver, "softcuda_calls"));
    static const auto count =
        reinterpret_cast<uint64_t (*)(const char*)>(dlsym(driver, "softcuda_call_count"));
    const bool counted = all != nullptr;
    const auto calls = [&] { return counted ? all() - count("cuPointerGetAttributes") : 0; };
    std::vector<double> iterations, cpu, counts;
    std::barrier both(2);
    const auto run = [&](Side& side, bool first) {
        CU(cuCtxSetCurrent, side.context);
        side.open_sync();
        Bell bell;
        std::optional<ByKernels> kernels;
        if (way == Graph::kernel) {
            kernels.emplace(side, 8, known_memory(side), known_memory(side));
        }
        CUgraphExec executable = make_graph(way, side, kernels ? &*kernels : nullptr, kTimes, bell);
        for (int i = -3; i < rounds; ++i) {
            both.arrive_and_wait();
            const uint64_t before = calls();
            const auto cpu_before = thread_time();
            const auto begin = Clock::now();
            CU(cuGraphLaunch, executable, side.stream);
            bell.sleep();
            const auto end = Clock::now();
            const auto cpu_time = thread_time() - cpu_before;
            both.arrive_and_wait();
            if (first && i >= 0) {
                iterations.push_back(microseconds(end - begin) / kTimes);
                cpu.push_back(microseconds(cpu_time));
                counts.push_back(static_cast<double>(calls() - before));
            }
            side.synchronize();
        }
        CU(cuGraphExecDestroy, executable);
        kernels.reset();
        side.close_sync();
    };
    std::thread other([&] { run(b, false); });
    run(a, true);
    other.join();
    report(std::string("graph ") + name, iterations);
    std::sort(counts.begin(), counts.end());
    report(std::string("launching ") + name +
               (counted ? " calls=" + std::to_string(static_cast<int>(counts[counts.size() / 2]))
                        : std::string()),
           cpu);
}

// What the kernels do, by threads: the CPU's and the messages' share.
void exchanges_by_host(Side& a, Side& b, int rounds)
{
    if (!host_may_trigger()) {
        return;
    }
    std::vector<double> times;
    std::barrier both(2);
    const auto run = [&](Side& side, bool first) {
        CU(cuCtxSetCurrent, side.context);
        side.open_sync();
        {
            const ByKernels kernels(side, 8, known_memory(side), known_memory(side));
            both.arrive_and_wait();
            for (int i = -rounds / 10; i < rounds; ++i) {
                const auto begin = Clock::now();
                kernels.exchange_by_host();
                if (first && i >= 0) {
                    times.push_back(microseconds(Clock::now() - begin));
                }
            }
        }
        side.close_sync();
    };
    std::thread other([&] { run(b, false); });
    run(a, true);
    other.join();
    report("graph host", times);
}

// A hundred times the work and two memory operations, as of the explicit graph.
CUgraph memory_operations(Side& side, CUdeviceptr gate, uint64_t open, int times)
{
    CUstreamBatchMemOpParams operations[2]{};
    operations[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    operations[0].writeValue.address = gate;
    operations[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
    operations[1].waitValue.address = gate;
    operations[1].waitValue.value64 = open;
    operations[1].waitValue.flags = CU_STREAM_WAIT_VALUE_AND;
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch{};
    batch.ctx = side.context;
    batch.count = 2;
    batch.paramArray = operations;
    CUgraph graph;
    CU(cuGraphCreate, &graph, 0u);
    std::vector<CUgraphNode> last;
    for (int i = 0; i < times; ++i) {
        const CUgraphNode work = side.add_work(graph, last);
        CUgraphNode node;
        CU(cuGraphAddBatchMemOpNode, &node, graph, &work, 1u, &batch);
        last = {node};
    }
    return graph;
}

// The kernels of the graph of kernels.
CUgraph kernels_alone(Side& side, CUdeviceptr gate, int times)
{
    ugdr_dev_condition_t condition{};
    condition.words = reinterpret_cast<unsigned long long*>(gate);
    condition.count = condition.arrivals = 1;
    CU(cuStreamBeginCapture, side.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    for (int i = 0; i < times; ++i) {
        launch(side.exchange, 1, side.stream, {&condition});
    }
    CUgraph graph;
    CU(cuStreamEndCapture, side.stream, &graph);
    return graph;
}

// Answered at once.
void bare_graph(const char* name, bool kernels, Side& side, int rounds)
{
    constexpr int kTimes = 100;
    constexpr uint64_t kOpen = 1;
    Word gate;
    gate.store(kOpen);
    CUgraph graph = kernels ? kernels_alone(side, gate.device, kTimes)
                            : memory_operations(side, gate.device, kOpen, kTimes);
    CUgraphExec executable;
    CU(cuGraphInstantiateWithFlags, &executable, graph, 0ull);
    CU(cuGraphDestroy, graph);
    std::atomic<bool> over{false};
    std::thread answers([&] {
        while (!over) {
            if (gate.load() != kOpen) {
                gate.store(kOpen);
            }
        }
    });
    std::vector<double> iterations;
    for (int i = -3; i < rounds; ++i) {
        const auto begin = Clock::now();
        CU(cuGraphLaunch, executable, side.stream);
        side.synchronize();
        if (i >= 0) {
            iterations.push_back(microseconds(Clock::now() - begin) / kTimes);
        }
    }
    over = true;
    answers.join();
    CU(cuGraphExecDestroy, executable);
    report(std::string("graph ") + name, iterations);
}

// ---- enqueueing

void enqueue(Side& side, int operations, int rounds)
{
    const auto nothing = [](void*) { return UCS_OK; };
    std::vector<ugdr_request_h> requests(static_cast<size_t>(operations));
    std::vector<double> times;
    for (int i = 0; i < rounds; ++i) {
        const auto begin = Clock::now();
        ugdr_condition_h point = point_of(side);
        const ugdr_op_param_t param = on(point, 0);
        for (ugdr_request_h& request : requests) {
            check(ugdr_call(side.sync, nothing, nullptr, nullptr, &param, &request), "ugdr_call");
        }
        check(ugdr_stream_wait(side.sync, side.stream, requests.data(), requests.size()),
              "ugdr_stream_wait");
        ugdr_condition_destroy(point);
        for (ugdr_request_h request : requests) {
            ugdr_request_free(request);
        }
        times.push_back(microseconds(Clock::now() - begin));
        side.synchronize();
    }
    report("enqueue " + std::to_string(operations), times);
}

void enqueue_batch(Side& side, int rounds)
{
    const auto nothing = [](void*) { return UCS_OK; };
    std::vector<double> times;
    for (int i = 0; i < rounds; ++i) {
        const auto begin = Clock::now();
        ugdr_condition_h point = point_of(side, UGDR_CONDITION_FLAG_WAIT);
        const ugdr_op_param_t param = on(point, 0);
        check(ugdr_call(side.sync, nothing, nullptr, nullptr, &param, nullptr), "ugdr_call");
        ugdr_condition_destroy(point);
        times.push_back(microseconds(Clock::now() - begin));
        side.synchronize();
    }
    report("enqueue batch", times);
}

void enqueue_event(Side& side, int rounds)
{
    CUevent event;
    CU(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    std::vector<double> times;
    for (int i = 0; i < rounds; ++i) {
        const auto begin = Clock::now();
        CU(cuEventRecord, event, side.stream);
        times.push_back(microseconds(Clock::now() - begin));
        side.synchronize();
    }
    report("enqueue event", times);
}

} // namespace

int main(int argc, char** argv)
{
    const Options options = parse(argc, argv);
    const auto rounds = static_cast<int>(options.rounds);
    CU(cuInit, 0);
    Side b(options, 1), a(options, 0); // a's context stays current
    a.connect(b);
    b.connect(a);
    const bool kernels = a.exchange != nullptr;
    for (size_t size = 8; size <= options.largest; size *= 8) {
        pingpong("cpu", by_cpu, false, a, b, size, rounds);
        pingpong("stream", by_stream, true, a, b, size, rounds);
        pingpong("batch", by_batch, true, a, b, size, rounds);
        pingpong("prepared", by_prepared, true, a, b, size, rounds);
        if (kernels) {
            pingpong("kernel", by_kernel, true, a, b, size, rounds);
        }
    }
    const int launches = std::max(rounds / 10, 5);
    graph("captured", Graph::captured, a, b, launches);
    graph("batch", Graph::batch, a, b, launches);
    graph("explicit", Graph::explicitly, a, b, launches);
    if (kernels) {
        graph("kernel", Graph::kernel, a, b, launches);
    }
    CU(cuCtxSetCurrent, a.context);
    exchanges_by_host(a, b, rounds);
    bare_graph("bare", false, a, launches);
    if (kernels) {
        bare_graph("bare kernel", true, a, launches);
    }
    a.open_sync();
    trigger("stream", Trigger::stream, a, rounds);
    trigger("bare", Trigger::bare, a, rounds);
    trigger_by_host(a, rounds);
    if (a.spin != nullptr) {
        trigger("kernel", Trigger::kernel, a, rounds);
        trigger("bare kernel", Trigger::bare_kernel, a, rounds);
        trigger("store", Trigger::store, a, rounds);
        trigger("after", Trigger::after, a, rounds);
    }
    trigger("function", Trigger::function, a, rounds);
    for (int operations : {1, 10, 100}) {
        enqueue(a, operations, rounds);
    }
    enqueue_batch(a, rounds);
    enqueue_event(a, rounds);
    a.close_sync();
    std::fflush(stdout);
    std::_Exit(0); // endpoints are not closed
}
