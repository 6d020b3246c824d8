// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The engine's calls to UCP, and UCP's callbacks.
#include "sync/triggers/engine.hpp"

namespace gdr::sync {
namespace {

// A function for each kind of operation.
template <typename... Functions>
struct Kinds : Functions... {
    using Functions::operator()...;
};
template <typename... Functions>
Kinds(Functions...) -> Kinds<Functions...>;

} // namespace

ucs_status_ptr_t Engine::post(Operation& operation)
{
    const ucp_request_param_t* const param = &operation.param;
    const Kinds post{
        [&](const TagSend& a) {
            return ucx_.ucp_tag_send_nbx(a.ep, a.buffer, a.count, a.tag, param);
        },
        [&](const TagReceive& a) {
            return ucx_.ucp_tag_recv_nbx(settings_.worker, a.buffer, a.count, a.tag, a.tag_mask,
                                         param);
        },
        [&](const AmSend& a) {
            return ucx_.ucp_am_send_nbx(a.ep, a.id, a.header, a.header_length, a.buffer, a.count,
                                        param);
        },
        [&](const Put& a) {
            return ucx_.ucp_put_nbx(a.ep, a.buffer, a.count, a.remote, a.rkey, param);
        },
        [&](const Get& a) {
            return ucx_.ucp_get_nbx(a.ep, a.buffer, a.count, a.remote, a.rkey, param);
        },
        [&](const Atomic& a) {
            return ucx_.ucp_atomic_op_nbx(a.ep, a.opcode, a.buffer, a.count, a.remote, a.rkey,
                                          param);
        },
        [&](const EpFlush& a) { return ucx_.ucp_ep_flush_nbx(a.ep, param); },
        [&](const WorkerFlush&) { return ucx_.ucp_worker_flush_nbx(settings_.worker, param); },
        [](const Call&) -> ucs_status_ptr_t { return UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM); },
    };
    return std::visit(post, operation.arguments);
}

// Called by whichever thread progresses the worker.
void Engine::finished(Operation& operation, void* request, ucs_status_t status)
{
    Engine* engine = operation.engine;
    Phase started = Phase::started;
    operation.ucp_status = status;
    if (operation.phase.compare_exchange_strong(started, Phase::finished)) {
        engine->submit(&operation.finished_command);
    } else {
        engine->ucx_.ucp_request_free(request); // abandoned
        operation.let_go();
    }
}

void Engine::sent(void* request, ucs_status_t status, void* operation)
{
    finished(*static_cast<Operation*>(operation), request, status);
}

void Engine::received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                      void* operation)
{
    auto& receive = *static_cast<Operation*>(operation);
    if (status == UCS_OK) {
        receive.as<TagReceive>()->info = *info;
    }
    finished(receive, request, status);
}

void Engine::prepare(Operation& operation)
{
    operation.engine = this;
    operation.param.op_attr_mask |= UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    operation.param.user_data = &operation;
    if (operation.as<TagReceive>() == nullptr) {
        operation.param.cb.send = sent;
        return;
    }
    operation.param.cb.recv = received;
    operation.param.op_attr_mask &= ~UCP_OP_ATTR_FIELD_RECV_INFO;
    // Some UCX releases do not report what a receive got if it completes at once.
    operation.param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
}

} // namespace gdr::sync
