// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Chooses the worker and who makes progress, and hands operations and waits to the engine.
#include "sync/context.hpp"

#include "cuda/context.hpp"
#include "cuda/pointer.hpp"
#include "sync/transfer.hpp"
#include "sync/ucx/log.hpp"
#include "sync/ucx/refusal.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace gdr::sync {
namespace {

const cuda::Driver& require_driver()
{
    const cuda::Driver* driver = cuda::driver();
    if (driver == nullptr) {
        throw Refusal(UCS_ERR_UNSUPPORTED, "no CUDA: " + cuda::unavailable_reason());
    }
    return *driver;
}

// The driver reads the variable when it starts.
unsigned hardware_queues()
{
    constexpr int kDefault = 8, kMost = 32;
    const char* text = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    return static_cast<unsigned>(
        std::clamp(text != nullptr ? std::atoi(text) : kDefault, 1, kMost));
}

Operation* operation_of(ugdr_request_h request)
{
    return reinterpret_cast<Operation*>(request);
}

constexpr uint64_t kKnownFields =
    UGDR_CONTEXT_PARAM_FIELD_UCP_CONTEXT | UGDR_CONTEXT_PARAM_FIELD_WORKER |
    UGDR_CONTEXT_PARAM_FIELD_LOCK | UGDR_CONTEXT_PARAM_FIELD_PROGRESS |
    UGDR_CONTEXT_PARAM_FIELD_IDLE | UGDR_CONTEXT_PARAM_FIELD_CPU_SET |
    UGDR_CONTEXT_PARAM_FIELD_ERROR_CB | UGDR_CONTEXT_PARAM_FIELD_FLAGS;

uint64_t flags_of(const ugdr_context_params_t& params)
{
    return (params.field_mask & UGDR_CONTEXT_PARAM_FIELD_FLAGS) != 0 ? params.flags : 0;
}

constexpr const char* kWaitsByItself =
    "UGDR_OP_FLAG_STREAM_WAIT: the condition waits for its operations by itself";

// A stream may wait only if it then sees what HCAs have written.
void require_waits(const Abilities& abilities)
{
    if (!abilities.memops) {
        throw Refusal(UCS_ERR_UNSUPPORTED,
                      "streams of this GPU cannot wait: its driver has no stream memory operations "
                      "(before CUDA 12: option NVreg_EnableStreamMemOPs=1)");
    }
    if (!abilities.sees_writes && !abilities.flushes_writes) {
        throw Refusal(
            UCS_ERR_UNSUPPORTED,
            "streams of this GPU cannot wait: it does not see what an HCA writes while it "
            "runs, and has no flush");
    }
}

void require_waits(const Node& node)
{
    require_waits(node.abilities);
    if (node.by_host_functions) {
        throw Refusal(UCS_ERR_UNSUPPORTED, "graphs cannot wait: the driver has no nodes of memory "
                                           "operations (before CUDA 11.7)");
    }
}

void require_this_thread(CUstream handle, uint64_t thread)
{
    if (thread_of(handle) != thread) {
        throw Refusal(UCS_ERR_INVALID_PARAM,
                      "UGDR_OP_FLAG_STREAM_WAIT: the condition is of another thread's default "
                      "stream (CU_STREAM_PER_THREAD), which that thread alone can have wait");
    }
}

// Held while a thread looks up the place of a capture and adds to the graph, so that contexts of
// this library add to a capture one after the other. No CUDA call under this lock waits for a
// stream.
std::mutex& capturing()
{
    static auto& mutex = *new std::mutex;
    return mutex;
}

// UCX would ask CUDA for the type at every run of a repeated operation, so host memory is declared
// once. Other memory keeps UCX's detection: the address may be allocated or freed between runs, and
// for GPU memory UCX wants more than the type.
void tell_memory_type(Operation& operation)
{
    ucp_request_param_t& param = operation.param;
    const bool contiguous = (param.op_attr_mask & UCP_OP_ATTR_FIELD_DATATYPE) == 0 ||
                            (param.datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_CONTIG;
    const void* const buffer = buffer_of(operation.arguments);
    if (buffer == nullptr || !contiguous ||
        (param.op_attr_mask & (UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_MEMH)) != 0) {
        return;
    }
    if (!cuda::is_pinned(require_driver(), buffer)) {
        return;
    }
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.memory_type = UCS_MEMORY_TYPE_HOST;
}

// The gates of a kernel's condition, which its nodes share, and its arrival counters. One arrival
// needs none.
struct TriggerBlock {
    TriggerBlock(const cuda::Driver& driver, CUcontext context, size_t count, unsigned arrivals)
        : gates(driver, context, count), arrived(driver, context, arrivals > 1 ? count : 0)
    {
    }

    const Taken<Gates> gates;
    const TakenCounters arrived;
};

} // namespace

Context::Context(const Ucx& ucx, const ugdr_context_params_t& params)
    : ucx_(ucx), connections_(hardware_queues()),
      idle_((params.field_mask & UGDR_CONTEXT_PARAM_FIELD_IDLE) != 0 ? params.idle
                                                                     : UGDR_IDLE_ADAPTIVE),
      cores_((params.field_mask & UGDR_CONTEXT_PARAM_FIELD_CPU_SET) != 0 &&
                     params.cpu_set != nullptr
                 ? std::optional(*params.cpu_set)
                 : std::nullopt)
{
    try {
        engine_ = std::make_unique<Engine>(ucx_, choose(params));
        const bool ucp = (params.field_mask & UGDR_CONTEXT_PARAM_FIELD_UCP_CONTEXT) != 0;
        network_ = std::make_unique<Network>(
            ucx_, (flags_of(params) & UGDR_CONTEXT_FLAG_NO_DIRECT) == 0,
            ucp ? std::make_unique<UcpAccess>(*engine_, params.ucp_context) : nullptr);
        transfers_ = std::make_unique<Transfers>(*engine_, *network_);
        if (!engine_->settings().by_caller) {
            proxy_ = std::make_unique<Proxy<Engine>>(*engine_, idle_, cores_ ? &*cores_ : nullptr);
        }
    } catch (...) {
        close_worker();
        throw;
    }
}

Context::~Context() = default;

Engine::Settings Context::choose(const ugdr_context_params_t& params)
{
    const auto has = [&](uint64_t field) { return (params.field_mask & field) != 0; };
    if (has(~kKnownFields)) {
        throw Refusal(UCS_ERR_INVALID_PARAM, "unknown bits in field_mask of ugdr_context_params_t");
    }
    if (has(UGDR_CONTEXT_PARAM_FIELD_IDLE) && params.idle != UGDR_IDLE_ADAPTIVE &&
        params.idle != UGDR_IDLE_SPIN && params.idle != UGDR_IDLE_YIELD) {
        throw Refusal(UCS_ERR_INVALID_PARAM, "unknown value of ugdr_idle_t");
    }
    if ((flags_of(params) & ~uint64_t{UGDR_CONTEXT_FLAG_NO_DIRECT}) != 0) {
        throw Refusal(UCS_ERR_INVALID_PARAM, "unknown bits in flags of ugdr_context_params_t");
    }
    Engine::Settings settings;
    settings.by_caller =
        has(UGDR_CONTEXT_PARAM_FIELD_PROGRESS) && params.progress == UGDR_PROGRESS_CALLER;
    if (has(UGDR_CONTEXT_PARAM_FIELD_ERROR_CB)) {
        settings.error = params.error_cb;
        settings.error_arg = params.error_arg;
    }
    const bool lock = has(UGDR_CONTEXT_PARAM_FIELD_LOCK);
    if (lock && (params.lock == nullptr || params.unlock == nullptr)) {
        throw Refusal(UCS_ERR_INVALID_PARAM, "lock and unlock are needed, both");
    }
    if (has(UGDR_CONTEXT_PARAM_FIELD_WORKER)) {
        require_thread_mode(params.worker, settings.by_caller, lock);
        settings.worker = params.worker;
        if (lock) {
            settings.lock = params.lock;
            settings.unlock = params.unlock;
            settings.lock_arg = params.lock_arg;
        }
    } else if (has(UGDR_CONTEXT_PARAM_FIELD_UCP_CONTEXT)) {
        settings.worker = create_worker(params.ucp_context, settings.by_caller);
        settings.own = true;
    }
    return settings;
}

void Context::require_thread_mode(ucp_worker_h worker, bool by_caller, bool lock)
{
    ucp_worker_attr_t attr{};
    attr.field_mask = UCP_WORKER_ATTR_FIELD_THREAD_MODE;
    if (worker == nullptr || ucx_.ucp_worker_query(worker, &attr) != UCS_OK) {
        throw Refusal(
            UCS_ERR_INVALID_PARAM,
            "ugdr_context_create: the worker is NULL, or ucp_worker_query() fails for it");
    }
    if (by_caller || attr.thread_mode == UCS_THREAD_MODE_MULTI ||
        (attr.thread_mode == UCS_THREAD_MODE_SERIALIZED && lock)) {
        return;
    }
    throw Refusal(
        UCS_ERR_UNSUPPORTED,
        std::string("the worker's thread mode is ") +
            (attr.thread_mode == UCS_THREAD_MODE_SINGLE ? "SINGLE" : "SERIALIZED, without a lock") +
            ", and the library's thread has to use it: create it with UCS_THREAD_MODE_MULTI (which "
            "a UCX built without --enable-mt does not give); or with UCS_THREAD_MODE_SERIALIZED, "
            "and give lock and unlock; or choose UGDR_PROGRESS_CALLER and call ugdr_progress()");
}

ucp_worker_h Context::create_worker(ucp_context_h ucp_context, bool by_caller)
{
    ucp_context_attr_t attr{};
    attr.field_mask = UCP_ATTR_FIELD_THREAD_MODE;
    if (ucp_context == nullptr || ucx_.ucp_context_query(ucp_context, &attr) != UCS_OK) {
        throw Refusal(
            UCS_ERR_INVALID_PARAM,
            "ugdr_context_create: the UCP context is NULL, or ucp_context_query() fails for it");
    }
    if (!by_caller && attr.thread_mode != UCS_THREAD_MODE_MULTI) {
        throw Refusal(
            UCS_ERR_UNSUPPORTED,
            "the UCP context was made without mt_workers_shared, and the library's worker "
            "would share it with the application's in another thread: set that, or choose "
            "UGDR_PROGRESS_CALLER");
    }
    ucp_worker_params_t params{};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    ucs_status_t status = ucx_.ucp_worker_create(ucp_context, &params, &own_worker_);
    if (status == UCS_OK) {
        status = ucx_.ucp_worker_get_address(own_worker_, &address_, &address_length_);
    }
    if (status != UCS_OK) {
        close_worker();
        throw Refusal(status, std::string("ugdr_context_create: no UCP worker could be made: ") +
                                  ucx_.ucs_status_string(status));
    }
    return own_worker_;
}

void Context::close_worker()
{
    if (address_ != nullptr) {
        ucx_.ucp_worker_release_address(own_worker_, address_);
    }
    if (own_worker_ != nullptr) {
        ucx_.ucp_worker_destroy(own_worker_);
    }
    address_ = nullptr;
    own_worker_ = nullptr;
}

bool Context::stop(std::chrono::milliseconds limit)
{
    const std::lock_guard guard(device_lock_);
    if (device_ != nullptr && !device_->stop(limit)) {
        return false;
    }
    if (proxy_ != nullptr && !proxy_->stop(limit)) {
        return false;
    }
    proxy_.reset();
    return true;
}

bool Context::abandon()
{
    if (device_ != nullptr) {
        device_->abandon();
    }
    return engine_->abandon();
}

// ---- devices

ugdr_device* Context::open_device(const Device::Settings& settings)
{
    const std::lock_guard guard(device_lock_);
    if (device_ != nullptr) {
        throw Refusal(UCS_ERR_BUSY, "ugdr_device_open: the context has a device, and one at a time "
                                    "is possible: close that, or make another context");
    }
    Device::Settings all = settings;
    all.idle = idle_;
    all.cores = cores_ ? &*cores_ : nullptr;
    device_ = std::make_unique<ugdr_device>(static_cast<ugdr_context*>(this), require_driver(),
                                            *engine_, network_->memories, network_->remote_memories,
                                            network_->addresses, all);
    return device_.get();
}

void Context::close_device(ugdr_device& device)
{
    const std::lock_guard guard(device_lock_);
    if (device.busy()) {
        throw Refusal(UCS_ERR_BUSY, "ugdr_device_close: operations of kernels are not complete");
    }
    device.close();
    device_.reset();
}

bool Context::has_device()
{
    const std::lock_guard guard(device_lock_);
    return device_ != nullptr;
}

// ---- prepared transfers

ugdr_transfer* Context::add(Prepared* prepared, unsigned calls)
{
    auto made = std::make_unique<ugdr_transfer>(static_cast<ugdr_context*>(this), prepared, calls);
    ugdr_transfer* const handle = made.get();
    const std::lock_guard guard(handles_lock_);
    handles_.emplace(handle, std::move(made));
    return handle;
}

void Context::remove(ugdr_transfer& transfer)
{
    if (transfer.prepared->busy()) {
        throw Refusal(UCS_ERR_BUSY, "ugdr_transfer_destroy: an iteration is not complete, or the "
                                    "condition of one has not held");
    }
    transfer.detach();
    transfers_->destroy(*transfer.prepared);
    const std::lock_guard guard(handles_lock_);
    handles_.erase(&transfer);
}

// ---- conditions

Condition::~Condition()
{
    for (Node* trigger : triggers) {
        trigger->end();
    }
}

void Context::record(Condition& condition, CUstream handle)
{
    const cuda::Driver& driver = require_driver();
    const std::lock_guard recording(condition.recording);
    {
        // Closes the previous wait first: the wait that is enqueued below may need room in a stream
        // that the previous one blocks.
        const std::lock_guard guard(condition.lock);
        condition.recorded.wait.reset();
    }
    Recorded next;
    next.handle = handle;
    next.thread = thread_of(handle);
    if (is_captured(driver, handle)) {
        const std::lock_guard guard(capturing());
        const Place place = captured_place(driver, handle);
        next.node = make_node(driver, place, true, condition.waits);
        next.nodes = add_node(driver, place, *next.node, false);
    } else {
        const LockedStream locked = streams_.lock(driver, handle);
        Stream& stream = *locked.stream;
        NextNumber point(stream.points);
        if (condition.waits) {
            require_waits(stream.abilities);
            HeldWait wait = Wait::take(stream, 0);
            NextNumber number(stream.waits);
            warn_of_a_crowd(stream);
            stream.mark_and_wait(driver, handle, point, number);
            wait->open = true;
            wait->engine = engine_.get();
            wait->hold();
            next.wait.reset(wait.get());
            begin(std::move(wait), number);
        } else {
            stream.mark(driver, handle, point);
        }
        next.stream = stream.held();
        next.point = point;
    }
    const std::lock_guard guard(condition.lock);
    condition.recorded = std::move(next);
}

// ---- nodes of graphs

HeldNode Context::make_node(const cuda::Driver& driver, const Place& place, bool triggers,
                            bool waits)
{
    const cuda::CurrentContext current(driver, place.context);
    HeldNode node(new Node(driver, place.context));
    node->capture = place.capture;
    node->handle = place.handle;
    node->thread = thread_of(place.handle);
    node->triggers = triggers;
    node->waits = waits;
    node->by_host_functions = !node->abilities.memops || driver.cuGraphAddBatchMemOpNode == nullptr;
    if (waits) {
        require_waits(*node);
    }
    return node;
}

GraphNodes Context::add_node(const cuda::Driver& driver, const Place& place, Node& node, bool split)
{
    node.one_gate = node.triggers && node.waits && !split;
    node.belongs_to(engine_.get());
    node.hold();
    engine_->submit_new(&node.start_command);
    return add_to_graph(driver, place, node);
}

void Context::add(Condition& condition, CUgraph graph, std::vector<CUgraphNode> dependencies,
                  bool split)
{
    const cuda::Driver& driver = require_driver();
    Place place;
    place.graph = graph;
    place.dependencies = std::move(dependencies);
    cuda::check(driver.cuCtxGetCurrent(&place.context), "cuCtxGetCurrent");
    if (place.context == nullptr) {
        throw Refusal(UCS_ERR_INVALID_PARAM,
                      "UGDR_CONDITION_GRAPH: no CUDA context is current to the calling thread");
    }
    Recorded& recorded = condition.recorded;
    recorded.node = make_node(driver, place, true, true);
    recorded.nodes = add_node(driver, place, *recorded.node, split);
}

// ---- kernels

void Context::add_triggers(Condition& condition, unsigned count, unsigned arrivals)
{
    const cuda::Driver& driver = require_driver();
    CUcontext context = nullptr;
    cuda::check(driver.cuCtxGetCurrent(&context), "cuCtxGetCurrent");
    if (context == nullptr) {
        throw Refusal(UCS_ERR_INVALID_PARAM,
                      "UGDR_CONDITION_KERNEL: no CUDA context is current to the calling thread");
    }
    if (const Abilities abilities = current_abilities(driver);
        !abilities.sees_writes && !abilities.flushes_writes) {
        throw Refusal(UCS_ERR_UNSUPPORTED,
                      "UGDR_CONDITION_KERNEL: kernels of this GPU do not see what an HCA writes "
                      "while they run, and it has no flush");
    }
    const auto block = std::make_shared<const TriggerBlock>(driver, context, count, arrivals);
    condition.device.words = on_device<unsigned long long>(block->gates.words.device);
    condition.device.arrived = on_device<unsigned>(block->arrived.words.device);
    condition.device.count = count;
    condition.device.arrivals = arrivals;
    condition.triggers.reserve(count);
    for (unsigned i = 0; i < count; ++i) {
        const Mapped<Gates>& all = block->gates.words;
        const Mapped<Gates> gates{all.host + i, all.device + i * sizeof(Gates), all.context_id};
        Node* node = new Node(driver, context, gates, block);
        condition.triggers.push_back(node);
        node->triggers = node->one_gate = true;
        node->belongs_to(engine_.get());
        node->hold();
        engine_->submit_new(&node->start_command);
    }
}

// Adds a wait to a capture, for operations of the same capture. Operations that are complete and do
// not run again need no wait.
void Context::add_wait(const cuda::Driver& driver, const Place& place,
                       const ugdr_request_h* requests, size_t count, bool all)
{
    for (size_t i = 0; i < count; ++i) {
        const Operation& operation = *operation_of(requests[i]);
        if (operation.node != nullptr ? operation.node->capture != place.capture
                                      : !operation.complete()) {
            throw Refusal(UCS_ERR_INVALID_PARAM,
                          "a stream that is being captured can wait for operations of the same "
                          "capture alone: others do not run again when the graph does");
        }
    }
    const HeldNode node = make_node(driver, place, false, true);
    node->waits_for_all = all;
    for (size_t i = 0; i < count; ++i) {
        Operation* operation = operation_of(requests[i]);
        if (operation->node != nullptr) {
            operation->hold();
            node->awaited.push_back(operation);
        }
    }
    add_node(driver, place, *node, false);
}

void Context::release_stream(CUstream handle)
{
    if (!streams_.release(require_driver(), handle)) {
        throw Refusal(UCS_ERR_BUSY, "ugdr_stream_release: a condition of the stream has not held "
                                    "yet, or it waits");
    }
}

// ---- operations

void Context::submit(Operation& operation, Condition* condition, unsigned index, bool wait)
{
    const size_t triggers =
        condition == nullptr || condition->triggers.empty() ? 1 : condition->triggers.size();
    if (index >= triggers) {
        throw Refusal(UCS_ERR_INVALID_PARAM, "index: the condition has no such trigger");
    }
    engine_->prepare(operation);
    if (condition == nullptr) {
        engine_->submit_new(&operation.start_command);
        return;
    }
    if (condition->category == UGDR_CONDITION_KERNEL) {
        if (wait) {
            throw Refusal(
                UCS_ERR_INVALID_PARAM,
                "UGDR_OP_FLAG_STREAM_WAIT: a kernel's condition is waited for by kernels");
        }
        submit_to(*condition->triggers[index], operation, false);
        return;
    }
    std::unique_lock recorded(condition->lock);
    const Recorded& at = condition->recorded;
    if (at.node != nullptr) {
        const HeldNode node = at.node->held();
        recorded.unlock();
        submit_to(*node, operation, wait);
        return;
    }
    HeldWait waiting;
    if (wait) {
        if (condition->waits) {
            throw Refusal(UCS_ERR_INVALID_PARAM, kWaitsByItself);
        }
        require_this_thread(at.handle, at.thread);
        require_waits(at.stream->abilities);
        waiting = Wait::take(*at.stream, 1);
    }
    const CUstream handle = at.handle;
    operation.stream = at.stream->held().release();
    operation.point = at.point;
    operation.joins = at.wait.get();
    engine_->submit_new(&operation.start_command); // before anybody can close the wait that it
                                                   // joins
    recorded.unlock();
    if (!wait) {
        return;
    }
    // The engine gets the operation first: the stream may be full until this operation ends.
    const HeldStream stream = waiting->stream->held();
    const auto request = reinterpret_cast<ugdr_request_h>(&operation);
    try {
        const std::lock_guard guard(stream->enqueueing);
        enqueue(std::move(waiting), handle, &request, 1);
    } catch (...) {
        take_back(operation);
        throw;
    }
}

// Attaches an operation to a node. The wait comes after it and may be refused.
void Context::submit_to(Node& node, Operation& operation, bool wait)
{
    std::unique_lock<std::mutex> guard;
    Place place;
    if (wait && node.waits) {
        throw Refusal(UCS_ERR_INVALID_PARAM, kWaitsByItself);
    }
    if (wait) {
        require_this_thread(node.handle, node.thread);
        if (node.capture != 0 && is_captured(require_driver(), node.handle)) {
            guard = std::unique_lock(capturing());
            place = captured_place(require_driver(), node.handle);
        }
        if (place.capture == 0 || place.capture != node.capture) {
            throw Refusal(UCS_ERR_INVALID_PARAM,
                          "UGDR_OP_FLAG_STREAM_WAIT: the condition is none of a stream that is "
                          "still being captured");
        }
        require_waits(node);
    }
    tell_memory_type(operation);
    operation.node = node.held().release();
    engine_->submit_new(&operation.start_command);
    if (!wait) {
        return;
    }
    const auto request = reinterpret_cast<ugdr_request_h>(&operation);
    try {
        add_wait(require_driver(), place, &request, 1, false);
    } catch (...) {
        take_back(operation);
        throw;
    }
}

// Cancels an operation that the engine already has. submit() in api.cpp then lets go twice, as if
// the engine had no hold on it.
void Context::take_back(Operation& operation)
{
    operation.hold();
    engine_->cancel_soon(operation);
}

// ---- waits

void Context::warn_of_a_crowd(const Stream& stream)
{
    if (others_waiting(stream) >= connections_) {
        crowded_waits_.fetch_add(1, std::memory_order_relaxed);
        log_once(ucx_, UCS_LOG_LEVEL_WARN,
                 "more streams wait than the GPU has hardware queues (" +
                     std::to_string(connections_) +
                     "): the next one is stuck until one of the others goes on. Set "
                     "CUDA_DEVICE_MAX_CONNECTIONS, up to 32, before the program starts, or let "
                     "fewer streams wait at a time");
    }
}

// Everything that can fail comes before CUDA is told, even allocations: from then on the stream
// waits until the engine releases it.
void Context::enqueue(HeldWait wait, CUstream handle, const ugdr_request_h* requests, size_t count)
{
    Stream& stream = *wait->stream;
    NextNumber number(stream.waits);
    warn_of_a_crowd(stream);
    stream.wait(require_driver(), handle, number);
    for (size_t i = 0; i < count; ++i) {
        operation_of(requests[i])->hold();
        wait->operations.push_back(operation_of(requests[i]));
    }
    begin(std::move(wait), number);
}

void Context::begin(HeldWait wait, uint64_t number)
{
    wait->number = number;
    engine_->submit_new(&wait.release()->command);
}

void Context::wait(CUstream handle, const ugdr_request_h* requests, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        if (requests[i] == nullptr || operation_of(requests[i])->engine != engine_.get()) {
            throw Refusal(UCS_ERR_INVALID_PARAM, "ugdr_stream_wait: a request of another context");
        }
    }
    const cuda::Driver& driver = require_driver();
    if (is_captured(driver, handle)) {
        const std::lock_guard guard(capturing());
        add_wait(driver, captured_place(driver, handle), requests, count, false);
        return;
    }
    for (size_t i = 0; i < count; ++i) {
        if (operation_of(requests[i])->node != nullptr) {
            throw Refusal(
                UCS_ERR_INVALID_PARAM,
                "ugdr_stream_wait: the operation runs at each launch of a graph, and only "
                "within that can be waited for");
        }
    }
    const LockedStream locked = streams_.lock(driver, handle);
    require_waits(locked.stream->abilities);
    HeldWait wait = Wait::take(*locked.stream, count);
    enqueue(std::move(wait), handle, requests, count);
}

void Context::wait_for_all(CUstream handle)
{
    const cuda::Driver& driver = require_driver();
    if (is_captured(driver, handle)) {
        const std::lock_guard guard(capturing());
        add_wait(driver, captured_place(driver, handle), nullptr, 0, true);
        return;
    }
    const LockedStream locked = streams_.lock(driver, handle);
    require_waits(locked.stream->abilities);
    HeldWait wait = Wait::take(*locked.stream, 0);
    wait->all = true;
    enqueue(std::move(wait), handle, nullptr, 0);
}

} // namespace gdr::sync
