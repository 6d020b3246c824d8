// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The functions of ugdr.h.
#include "sync/guarded.hpp"

#include <cstdio>

using namespace gdr;
using namespace gdr::sync;

namespace {

Operation* operation_of(ugdr_request_h request)
{
    return reinterpret_cast<Operation*>(request);
}

constexpr unsigned kMostTriggers = 65536; // of a condition; each takes pinned memory

// ---- parameters of operations

constexpr uint32_t kKnownAttributes =
    UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_DATATYPE |
    UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_REPLY_BUFFER | UCP_OP_ATTR_FIELD_MEMORY_TYPE |
    UCP_OP_ATTR_FIELD_RECV_INFO | UCP_OP_ATTR_FIELD_MEMH | UCP_OP_ATTR_FLAG_NO_IMM_CMPL |
    UCP_OP_ATTR_FLAG_FAST_CMPL | UCP_OP_ATTR_FLAG_MULTI_SEND;

void require_known(const ucp_request_param_t& param)
{
    if ((param.op_attr_mask & UCP_OP_ATTR_FIELD_REQUEST) != 0) {
        throw Refusal(UCS_ERR_INVALID_PARAM,
                      "UCP_OP_ATTR_FIELD_REQUEST: the operation's request is the library's own");
    }
    if ((param.op_attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL) != 0) {
        throw Refusal(UCS_ERR_INVALID_PARAM,
                      "UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL: operations are complete later");
    }
    if ((param.op_attr_mask & ~kKnownAttributes) != 0) {
        char mask[16];
        std::snprintf(mask, sizeof(mask), "0x%x", param.op_attr_mask & ~kKnownAttributes);
        throw Refusal(UCS_ERR_UNSUPPORTED,
                      std::string("unknown bits in op_attr_mask of ucp_request_param_t: ") + mask);
    }
}

void take_parameters(Operation& operation, const ucp_request_param_t& from)
{
    const auto has = [&](uint32_t field) { return (from.op_attr_mask & field) != 0; };
    operation.param = from; // the structure has had all known fields since UCX 1.13
    if (has(UCP_OP_ATTR_FIELD_CALLBACK)) {
        operation.user_callback = from.cb;
    }
    operation.user_data = has(UCP_OP_ATTR_FIELD_USER_DATA) ? from.user_data : nullptr;
    if (TagReceive* receive = operation.as<TagReceive>();
        receive != nullptr && has(UCP_OP_ATTR_FIELD_RECV_INFO)) {
        receive->user_info = from.recv_info.tag_info;
    }
}

constexpr uint64_t kFieldsOfCondition = UGDR_OP_PARAM_FIELD_FLAGS | UGDR_OP_PARAM_FIELD_INDEX;
constexpr uint64_t kKnownFields = UGDR_OP_PARAM_FIELD_CONDITION | UGDR_OP_PARAM_FIELD_UCP |
                                  UGDR_OP_PARAM_FIELD_FLAGS | UGDR_OP_PARAM_FIELD_INDEX;

// Without a condition an operation starts at once. A caller that forgets the mask would get an
// early start and no error.
void require_fields(const ugdr_op_param_t& param)
{
    require_known_fields(param.field_mask, kKnownFields, "ugdr_op_param_t");
    if (param.field_mask == 0) {
        throw Refusal(UCS_ERR_INVALID_PARAM,
                      "field_mask of ugdr_op_param_t is 0: set the bits of the fields that count "
                      "(UGDR_OP_PARAM_FIELD_CONDITION), or pass NULL for an operation without any");
    }
    if ((param.field_mask & kFieldsOfCondition) != 0 &&
        (param.field_mask & UGDR_OP_PARAM_FIELD_CONDITION) == 0) {
        throw Refusal(UCS_ERR_INVALID_PARAM,
                      "field_mask of ugdr_op_param_t has flags or index, which are of a condition, "
                      "but not UGDR_OP_PARAM_FIELD_CONDITION");
    }
}

// UCP would crash on these, in a thread that does not show which call was at fault.
void require_target(const Arguments& arguments)
{
    std::visit(
        [](const auto& any) {
            if constexpr (requires { any.rkey; }) {
                require(any.rkey, "rkey");
            }
            if constexpr (requires { any.ep; }) {
                require(any.ep, "ep");
            }
            if constexpr (requires { any.start; }) {
                require(reinterpret_cast<const void*>(any.start), "start");
            }
        },
        arguments);
}

// ---- conditions

void make(Context& context, Condition& condition, const ugdr_condition_params_t& params)
{
    const auto has = [&](uint64_t field) { return (params.field_mask & field) != 0; };
    const auto require_fields = [&](uint64_t needed, uint64_t possible) {
        needed |= UGDR_CONDITION_PARAM_FIELD_CATEGORY;
        if ((params.field_mask & needed) != needed ||
            (params.field_mask & ~(needed | possible)) != 0) {
            throw Refusal(UCS_ERR_INVALID_PARAM,
                          "ugdr_condition_create: field_mask does not fit the category");
        }
    };
    const auto flags_of = [&](uint64_t possible) {
        const uint64_t flags = has(UGDR_CONDITION_PARAM_FIELD_FLAGS) ? params.flags : 0;
        if ((flags & ~possible) != 0) {
            throw Refusal(UCS_ERR_INVALID_PARAM,
                          "flags of ugdr_condition_params_t has bits that are not of the category");
        }
        return flags;
    };
    require_fields(0, ~uint64_t{0});
    condition.category = params.category;
    switch (params.category) {
    case UGDR_CONDITION_STREAM:
        require_fields(UGDR_CONDITION_PARAM_FIELD_STREAM, UGDR_CONDITION_PARAM_FIELD_FLAGS);
        condition.waits = flags_of(UGDR_CONDITION_FLAG_WAIT) != 0;
        context.record(condition, params.stream);
        return;
    case UGDR_CONDITION_GRAPH: {
        require_fields(UGDR_CONDITION_PARAM_FIELD_GRAPH, UGDR_CONDITION_PARAM_FIELD_FLAGS);
        const uint64_t flags = flags_of(UGDR_CONDITION_FLAG_SPLIT);
        require_array(params.dependencies, params.num_dependencies, "dependencies");
        context.add(condition, params.graph,
                    {params.dependencies, params.dependencies + params.num_dependencies},
                    flags != 0);
        return;
    }
    case UGDR_CONDITION_KERNEL: {
        require_fields(0, UGDR_CONDITION_PARAM_FIELD_COUNT | UGDR_CONDITION_PARAM_FIELD_ARRIVALS);
        const unsigned count = has(UGDR_CONDITION_PARAM_FIELD_COUNT) ? params.count : 1;
        const unsigned arrivals = has(UGDR_CONDITION_PARAM_FIELD_ARRIVALS) ? params.arrivals : 1;
        if (count == 0 || count > kMostTriggers || arrivals == 0) {
            throw Refusal(UCS_ERR_INVALID_PARAM, "ugdr_condition_create: count: 1 to " +
                                                     std::to_string(kMostTriggers) +
                                                     ", arrivals: 1 at least");
        }
        context.add_triggers(condition, count, arrivals);
        return;
    }
    }
    throw Refusal(UCS_ERR_INVALID_PARAM, "ugdr_condition_create: unknown category");
}

ucs_status_t submit(ugdr_context_h context, const Arguments& arguments,
                    const ugdr_op_param_t* param, ugdr_request_h* request_p)
{
    return guarded(context, [&] {
        const auto has = [&](uint64_t field) {
            return param != nullptr && (param->field_mask & field) != 0;
        };
        if (param != nullptr) {
            require_fields(*param);
        }
        if (!std::holds_alternative<Call>(arguments) &&
            context->engine().settings().worker == nullptr) {
            throw Refusal(UCS_ERR_INVALID_PARAM,
                          "the context has neither a worker nor a UCP context: ugdr_call() alone "
                          "is possible");
        }
        const ugdr_condition_h condition =
            has(UGDR_OP_PARAM_FIELD_CONDITION) ? param->condition : nullptr;
        if (has(UGDR_OP_PARAM_FIELD_CONDITION)) {
            require(condition, "condition");
            if (condition->context != context) {
                throw Refusal(UCS_ERR_INVALID_PARAM, "the condition is another context's");
            }
        }
        const unsigned index = has(UGDR_OP_PARAM_FIELD_INDEX) ? param->index : 0;
        const uint64_t flags = has(UGDR_OP_PARAM_FIELD_FLAGS) ? param->flags : 0;
        if ((flags & ~uint64_t{UGDR_OP_FLAG_STREAM_WAIT}) != 0) {
            throw Refusal(UCS_ERR_INVALID_PARAM, "unknown bits in flags of ugdr_op_param_t");
        }
        if (has(UGDR_OP_PARAM_FIELD_UCP)) {
            require(param->ucp, "ucp");
            require_known(*param->ucp);
        }
        require_target(arguments);
        Operation* operation = Operation::take(arguments);
        if (has(UGDR_OP_PARAM_FIELD_UCP)) {
            take_parameters(*operation, *param->ucp);
        }
        try {
            context->submit(*operation, condition, index, flags != 0);
        } catch (...) {
            operation->let_go();
            operation->let_go();
            throw;
        }
        if (request_p != nullptr) {
            *request_p = reinterpret_cast<ugdr_request_h>(operation);
        } else {
            operation->let_go();
        }
    });
}

} // namespace

// ---- contexts

UGDR_EXPORT ucs_status_t ugdr_context_create_version(unsigned api_major, unsigned api_minor,
                                                     ugdr_ucx_function_t function,
                                                     const ugdr_context_params_t* params,
                                                     ugdr_context_h* context_p)
{
    if (params == nullptr || context_p == nullptr) {
        return UCS_ERR_INVALID_PARAM;
    }
    Ucx ucx{};
    const std::string missing = find_ucx(reinterpret_cast<const void*>(function), ucx);
    if (!missing.empty()) { // there is no UCX to log with
        std::fprintf(stderr, "ugdr: %s\n", missing.c_str());
        return UCS_ERR_UNSUPPORTED;
    }
    return guarded(ucx, [&] {
        if (api_major != UGDR_API_MAJOR || api_minor > UGDR_API_MINOR) {
            throw Refusal(UCS_ERR_UNSUPPORTED,
                          "the program was compiled for version " + std::to_string(api_major) +
                              "." + std::to_string(api_minor) + " of libucx-gdr, this is " +
                              std::to_string(UGDR_API_MAJOR) + "." +
                              std::to_string(UGDR_API_MINOR));
        }
        auto context = std::make_unique<ugdr_context>(ucx, *params);
        enter(*context);
        *context_p = context.release();
    });
}

UGDR_EXPORT ucs_status_t ugdr_context_destroy(ugdr_context_h context, unsigned flags)
{
    bool gone = true;
    const ucs_status_t status = guarded(context, [&] {
        if ((flags & ~unsigned{UGDR_DESTROY_FORCE}) != 0) {
            throw Refusal(UCS_ERR_INVALID_PARAM, "unknown bits in flags of ugdr_context_destroy");
        }
        const bool force = (flags & UGDR_DESTROY_FORCE) != 0;
        if (!force && context->has_device()) {
            throw Refusal(UCS_ERR_BUSY, "ugdr_context_destroy: a device is open "
                                        "(ugdr_device_close(), or UGDR_DESTROY_FORCE)");
        }
        if (!force && context->transfers().any()) {
            throw Refusal(UCS_ERR_BUSY, "ugdr_context_destroy: there are prepared transfers "
                                        "(ugdr_transfer_destroy(), or UGDR_DESTROY_FORCE)");
        }
        if (!force && context->engine().unfinished() > 0) {
            throw Refusal(UCS_ERR_BUSY,
                          "ugdr_context_destroy: operations are not complete, streams "
                          "wait, or graphs hold conditions "
                          "(UGDR_DESTROY_FORCE ends them)");
        }
        context->transfers().close();
        context->network().close();
        leave(*context);
        while (!context->stop(std::chrono::seconds(1))) {
        }
        gone = !context->abandon();
        context->close_worker();
    });
    if (status == UCS_OK && gone) {
        delete context;
    }
    return status;
}

UGDR_EXPORT ucs_status_t ugdr_context_query(ugdr_context_h context, ugdr_context_attr_t* attr)
{
    return guarded(context, [&] {
        require(attr, "attr");
        require_known_fields(attr->field_mask,
                             UGDR_CONTEXT_ATTR_FIELD_TRIGGER | UGDR_CONTEXT_ATTR_FIELD_COUNTERS |
                                 UGDR_CONTEXT_ATTR_FIELD_STATUS | UGDR_CONTEXT_ATTR_FIELD_WORKER,
                             "ugdr_context_attr_t");
        Engine& engine = context->engine();
        if ((attr->field_mask & UGDR_CONTEXT_ATTR_FIELD_TRIGGER) != 0) {
            const cuda::Driver* driver = cuda::driver();
            CUdevice device = -1;
            if (driver == nullptr || driver->cuCtxGetDevice(&device) != CUDA_SUCCESS) {
                attr->trigger = UGDR_TRIGGER_NONE;
            } else {
                attr->trigger = abilities_of(*driver, device).memops ? UGDR_TRIGGER_MEMOPS
                                                                     : UGDR_TRIGGER_HOST_FUNCTIONS;
            }
        }
        if ((attr->field_mask & UGDR_CONTEXT_ATTR_FIELD_COUNTERS) != 0) {
            attr->counters = engine.counters();
            attr->counters.crowded_waits = context->crowded_waits();
        }
        if ((attr->field_mask & UGDR_CONTEXT_ATTR_FIELD_STATUS) != 0) {
            attr->status = engine.status();
        }
        if ((attr->field_mask & UGDR_CONTEXT_ATTR_FIELD_WORKER) != 0) {
            attr->worker = engine.settings().own ? engine.settings().worker : nullptr;
        }
    });
}

static std::atomic<ugdr_context_h> default_context{nullptr};

UGDR_EXPORT void ugdr_context_set_default(ugdr_context_h context)
{
    default_context = context;
}

UGDR_EXPORT ugdr_context_h ugdr_context_default(void)
{
    return default_context;
}

UGDR_EXPORT unsigned ugdr_progress(ugdr_context_h context)
{
    unsigned events = 0;
    (void)guarded(context, [&] {
        Engine& engine = context->engine();
        events = engine.settings().by_caller ? engine.progress() : 0;
    });
    return events;
}

UGDR_EXPORT ucs_status_t ugdr_worker_address(ugdr_context_h context,
                                             const ucp_address_t** address_p, size_t* length_p)
{
    return guarded(context, [&] {
        require(address_p, "address_p");
        require(length_p, "length_p");
        if (context->address() == nullptr) {
            throw Refusal(UCS_ERR_INVALID_PARAM,
                          "ugdr_worker_address: the library has no worker of its own");
        }
        *address_p = context->address();
        *length_p = context->address_length();
    });
}

// ---- conditions

UGDR_EXPORT ucs_status_t ugdr_condition_create(ugdr_context_h context,
                                               const ugdr_condition_params_t* params,
                                               ugdr_condition_h* condition_p)
{
    return guarded(context, [&] {
        require(params, "params");
        require(condition_p, "condition_p");
        auto condition = std::make_unique<ugdr_condition>();
        condition->context = context;
        make(*context, *condition, *params);
        *condition_p = condition.release();
    });
}

UGDR_EXPORT ucs_status_t ugdr_condition_record(ugdr_condition_h condition, ugdr_cu_stream_t stream)
{
    if (condition == nullptr) {
        return UCS_ERR_INVALID_PARAM;
    }
    return guarded(condition->context->ucx(), [&] {
        if (condition->category != UGDR_CONDITION_STREAM) {
            throw Refusal(UCS_ERR_INVALID_PARAM,
                          "ugdr_condition_record: the condition is none of a stream");
        }
        condition->context->record(*condition, stream);
    });
}

UGDR_EXPORT ucs_status_t ugdr_condition_destroy(ugdr_condition_h condition)
{
    if (in_forked_child()) {
        return UCS_ERR_UNSUPPORTED;
    }
    delete condition;
    return UCS_OK;
}

UGDR_EXPORT ucs_status_t ugdr_condition_query(ugdr_condition_h condition,
                                              ugdr_condition_attr_t* attr)
{
    if (condition == nullptr || attr == nullptr) {
        return UCS_ERR_INVALID_PARAM;
    }
    return guarded(condition->context->ucx(), [&] {
        require_known_fields(attr->field_mask,
                             UGDR_CONDITION_ATTR_FIELD_NODES | UGDR_CONDITION_ATTR_FIELD_DEVICE |
                                 UGDR_CONDITION_ATTR_FIELD_CATEGORY,
                             "ugdr_condition_attr_t");
        if ((attr->field_mask & UGDR_CONDITION_ATTR_FIELD_NODES) != 0) {
            const std::lock_guard guard(condition->lock);
            attr->trigger_node = condition->recorded.nodes.trigger;
            attr->done_node = condition->recorded.nodes.done;
        }
        if ((attr->field_mask & UGDR_CONDITION_ATTR_FIELD_DEVICE) != 0) {
            if (condition->category != UGDR_CONDITION_KERNEL) {
                throw Refusal(UCS_ERR_INVALID_PARAM,
                              "ugdr_condition_query: device is of a kernel's condition alone");
            }
            attr->device = condition->device;
        }
        if ((attr->field_mask & UGDR_CONDITION_ATTR_FIELD_CATEGORY) != 0) {
            attr->category = condition->category;
        }
    });
}

UGDR_EXPORT ucs_status_t ugdr_stream_release(ugdr_context_h context, ugdr_cu_stream_t stream)
{
    return guarded(context, [&] { context->release_stream(stream); });
}

// ---- operations

UGDR_EXPORT ucs_status_t ugdr_tag_send(ugdr_context_h context, ucp_ep_h ep, const void* buffer,
                                       size_t count, ucp_tag_t tag, const ugdr_op_param_t* param,
                                       ugdr_request_h* request_p)
{
    return submit(context, TagSend{ep, buffer, count, tag}, param, request_p);
}

UGDR_EXPORT ucs_status_t ugdr_tag_recv(ugdr_context_h context, void* buffer, size_t count,
                                       ucp_tag_t tag, ucp_tag_t tag_mask,
                                       const ugdr_op_param_t* param, ugdr_request_h* request_p)
{
    return submit(context, TagReceive{buffer, count, tag, tag_mask}, param, request_p);
}

UGDR_EXPORT ucs_status_t ugdr_am_send(ugdr_context_h context, ucp_ep_h ep, unsigned id,
                                      const void* header, size_t header_length, const void* buffer,
                                      size_t count, const ugdr_op_param_t* param,
                                      ugdr_request_h* request_p)
{
    return submit(context, AmSend{ep, id, header, header_length, buffer, count}, param, request_p);
}

UGDR_EXPORT ucs_status_t ugdr_put(ugdr_context_h context, ucp_ep_h ep, const void* buffer,
                                  size_t count, uint64_t remote_addr, ucp_rkey_h rkey,
                                  const ugdr_op_param_t* param, ugdr_request_h* request_p)
{
    return submit(context, Put{ep, buffer, count, remote_addr, rkey}, param, request_p);
}

UGDR_EXPORT ucs_status_t ugdr_get(ugdr_context_h context, ucp_ep_h ep, void* buffer, size_t count,
                                  uint64_t remote_addr, ucp_rkey_h rkey,
                                  const ugdr_op_param_t* param, ugdr_request_h* request_p)
{
    return submit(context, Get{ep, buffer, count, remote_addr, rkey}, param, request_p);
}

UGDR_EXPORT ucs_status_t ugdr_atomic(ugdr_context_h context, ucp_ep_h ep, ucp_atomic_op_t opcode,
                                     const void* buffer, size_t count, uint64_t remote_addr,
                                     ucp_rkey_h rkey, const ugdr_op_param_t* param,
                                     ugdr_request_h* request_p)
{
    return submit(context, Atomic{ep, opcode, buffer, count, remote_addr, rkey}, param, request_p);
}

UGDR_EXPORT ucs_status_t ugdr_ep_flush(ugdr_context_h context, ucp_ep_h ep,
                                       const ugdr_op_param_t* param, ugdr_request_h* request_p)
{
    return submit(context, EpFlush{ep}, param, request_p);
}

UGDR_EXPORT ucs_status_t ugdr_worker_flush(ugdr_context_h context, const ugdr_op_param_t* param,
                                           ugdr_request_h* request_p)
{
    return submit(context, WorkerFlush{}, param, request_p);
}

UGDR_EXPORT ucs_status_t ugdr_call(ugdr_context_h context, ugdr_call_cb_t start,
                                   ugdr_call_cb_t test, void* arg, const ugdr_op_param_t* param,
                                   ugdr_request_h* request_p)
{
    return submit(context, Call{start, test, arg}, param, request_p);
}

// ---- completion

UGDR_EXPORT ucs_status_t ugdr_request_test(ugdr_request_h request)
{
    if (request == nullptr) {
        return UCS_ERR_INVALID_PARAM;
    }
    return static_cast<ucs_status_t>(operation_of(request)->status.load(std::memory_order_acquire));
}

UGDR_EXPORT ucs_status_t ugdr_request_wait(ugdr_request_h request)
{
    if (request == nullptr) {
        return UCS_ERR_INVALID_PARAM;
    }
    Operation& operation = *operation_of(request);
    if (operation.complete()) {
        return ugdr_request_test(request);
    }
    Engine& engine = *operation.engine;
    const ucs_status_t status = guarded(engine.ucx(), [&] { engine.wait_for(operation); });
    return status == UCS_OK ? ugdr_request_test(request) : status;
}

UGDR_EXPORT ucs_status_t ugdr_request_cancel(ugdr_request_h request)
{
    if (request == nullptr) {
        return UCS_ERR_INVALID_PARAM;
    }
    Operation& operation = *operation_of(request);
    if (operation.complete() && operation.node == nullptr) {
        return UCS_OK;
    }
    ucs_status_t cancelled = UCS_OK;
    const ucs_status_t status = guarded(
        operation.engine->ucx(), [&] { cancelled = operation.engine->cancel_soon(operation); });
    return status == UCS_OK ? cancelled : status;
}

UGDR_EXPORT void ugdr_request_free(ugdr_request_h request)
{
    if (request != nullptr) {
        operation_of(request)->let_go();
    }
}

UGDR_EXPORT ucs_status_t ugdr_stream_wait(ugdr_context_h context, ugdr_cu_stream_t stream,
                                          const ugdr_request_h* requests, size_t count)
{
    return guarded(context, [&] {
        require_array(requests, count, "requests");
        context->wait(stream, requests, count);
    });
}

UGDR_EXPORT ucs_status_t ugdr_stream_wait_all(ugdr_context_h context, ugdr_cu_stream_t stream)
{
    return guarded(context, [&] { context->wait_for_all(stream); });
}
