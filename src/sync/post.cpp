// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The engine's calls to UCP, and UCP's callbacks.
#include "sync/engine.hpp"

namespace gdr::sync {

ucs_status_ptr_t Engine::post(Operation& o)
{
    switch (o.kind) {
    case OperationKind::tag_send:
        return ucx_.ucp_tag_send_nbx(o.ep, o.buffer, o.count, o.tag, &o.param);
    case OperationKind::tag_recv:
        return ucx_.ucp_tag_recv_nbx(settings_.worker, o.buffer, o.count, o.tag, o.tag_mask,
                                     &o.param);
    case OperationKind::am_send:
        return ucx_.ucp_am_send_nbx(o.ep, o.am_id, o.header, o.header_length, o.buffer, o.count,
                                    &o.param);
    case OperationKind::put:
        return ucx_.ucp_put_nbx(o.ep, o.buffer, o.count, o.tag, o.rkey, &o.param);
    case OperationKind::get:
        return ucx_.ucp_get_nbx(o.ep, o.buffer, o.count, o.tag, o.rkey, &o.param);
    case OperationKind::atomic:
        return ucx_.ucp_atomic_op_nbx(o.ep, o.opcode, o.buffer, o.count, o.tag, o.rkey, &o.param);
    case OperationKind::ep_flush:
        return ucx_.ucp_ep_flush_nbx(o.ep, &o.param);
    case OperationKind::worker_flush:
        return ucx_.ucp_worker_flush_nbx(settings_.worker, &o.param);
    case OperationKind::call:
        break;
    }
    return UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM);
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
        receive.tag_info = *info;
    }
    finished(receive, request, status);
}

void Engine::prepare(Operation& operation)
{
    operation.engine = this;
    operation.param.op_attr_mask |= UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    operation.param.user_data = &operation;
    if (operation.kind != OperationKind::tag_recv) {
        operation.param.cb.send = sent;
        return;
    }
    operation.param.cb.recv = received;
    operation.param.op_attr_mask &= ~UCP_OP_ATTR_FIELD_RECV_INFO;
    // Some UCX releases do not report what a receive got if it completes at once.
    operation.param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
}

} // namespace gdr::sync
