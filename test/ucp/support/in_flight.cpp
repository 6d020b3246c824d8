// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Non-blocking UCP operations in flight.
#include "in_flight.hpp"

#include "failure.hpp"

namespace ucptest {
namespace {

constexpr ucp_tag_t kWholeTag = ~ucp_tag_t{0};

} // namespace

InFlight::Operation& InFlight::expect(size_t length, ucp_tag_t tag)
{
    return operations_.emplace_back(Operation{this, length, tag, 0, nullptr, false});
}

ucp_request_param_t InFlight::parameters(ucp_datatype_t datatype, Operation& operation)
{
    ucp_request_param_t param = {};
    param.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = datatype;
    param.user_data = &operation;
    param.cb.send = sent;
    return param;
}

ucp_request_param_t InFlight::parameters(const View& view, Operation& operation)
{
    auto param = parameters(view.datatype, operation);
    // UCX 1.13 looks at the array of segments itself to learn the memory type; where it can find
    // out by itself it has to.
    if (view.datatype == UCP_DATATYPE_IOV || types_ == Types::kTold) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
        param.memory_type = view.memory_type;
    }
    return param;
}

void InFlight::started(ucs_status_ptr_t request, const char* call)
{
    if (UCS_PTR_IS_PTR(request)) {
        ++outstanding_;
        Operation& operation = operations_.back();
        if (!operation.complete) { // its callback may have run already
            operation.request = request;
        }
        return;
    }
    const ucs_status_t status = UCS_PTR_STATUS(request);
    if (status != UCS_OK && status_ == UCS_OK) {
        status_ = status;
        error_ = format("%s: %s", call, ucs_status_string(status));
    }
}

void InFlight::finish(Operation& operation, ucs_status_t status)
{
    --outstanding_;
    operation.complete = true;
    operation.request = nullptr;
    if (status != UCS_OK && status_ == UCS_OK) {
        status_ = status;
        error_ = format("completed with %s", ucs_status_string(status));
    }
}

void InFlight::check_length(size_t found, size_t expected)
{
    if (found == expected || status_ != UCS_OK) {
        return;
    }
    status_ = UCS_ERR_INVALID_PARAM;
    error_ = format("received %zu bytes instead of %zu", found, expected);
}

void InFlight::check_tag(const ucp_tag_recv_info_t& info, const Operation& operation)
{
    check_length(info.length, operation.length);
    if (info.sender_tag == operation.tag || status_ != UCS_OK) {
        return;
    }
    status_ = UCS_ERR_INVALID_PARAM;
    error_ = format("received tag %llx instead of %llx",
                    static_cast<unsigned long long>(info.sender_tag),
                    static_cast<unsigned long long>(operation.tag));
}

void InFlight::sent(void* request, ucs_status_t status, void* operation)
{
    auto* self = static_cast<Operation*>(operation);
    self->owner->finish(*self, status);
    ucp_request_free(request);
}

void InFlight::tag_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                            void* operation)
{
    auto* self = static_cast<Operation*>(operation);
    self->owner->finish(*self, status);
    if (status == UCS_OK) {
        self->owner->check_tag(*info, *self);
    }
    ucp_request_free(request);
}

void InFlight::data_received(void* request, ucs_status_t status, size_t length, void* operation)
{
    auto* self = static_cast<Operation*>(operation);
    self->owner->finish(*self, status);
    if (status == UCS_OK) {
        self->owner->check_length(length, self->length);
    }
    ucp_request_free(request);
}

void InFlight::tag_send(ucp_ep_h ep, const View& view, ucp_tag_t tag, bool synchronous)
{
    const auto param = parameters(view, expect());
    if (synchronous) {
        started(ucp_tag_send_sync_nbx(ep, view.buffer, view.count, tag, &param),
                "ucp_tag_send_sync_nbx");
    } else {
        started(ucp_tag_send_nbx(ep, view.buffer, view.count, tag, &param), "ucp_tag_send_nbx");
    }
}

void InFlight::tag_receive(const View& view, ucp_tag_t tag, size_t length)
{
    Operation& operation = expect(length, tag);
    auto param = parameters(view, operation);
    // Always through the callback: UCX 1.13 leaves recv_info unset on immediate completion. The
    // callback may run before the call returns.
    param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param.cb.recv = tag_received;
    started(ucp_tag_recv_nbx(worker_.handle(), view.buffer, view.count, tag, kWholeTag, &param),
            "ucp_tag_recv_nbx");
}

void InFlight::am_send(ucp_ep_h ep, unsigned id, const void* header, size_t header_length,
                       const View& view, uint32_t flags)
{
    auto param = parameters(view, expect());
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = flags;
    started(ucp_am_send_nbx(ep, id, header, header_length, view.buffer, view.count, &param),
            "ucp_am_send_nbx");
}

bool InFlight::am_receive(void* descriptor, const View& view, size_t length)
{
    Operation& operation = expect(length);
    auto param = parameters(view, operation);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_RECV_INFO;
    param.recv_info.length = &operation.received;
    param.cb.recv_am = data_received;
    const ucs_status_ptr_t request =
        ucp_am_recv_data_nbx(worker_.handle(), descriptor, view.buffer, view.count, &param);
    started(request, "ucp_am_recv_data_nbx");
    if (request == nullptr) {
        check_length(operation.received, length);
    }
    return UCS_PTR_IS_PTR(request);
}

void InFlight::stream_send(ucp_ep_h ep, const View& view)
{
    const auto param = parameters(view, expect());
    started(ucp_stream_send_nbx(ep, view.buffer, view.count, &param), "ucp_stream_send_nbx");
}

void InFlight::stream_receive(ucp_ep_h ep, const View& view, size_t length)
{
    Operation& operation = expect(length);
    auto param = parameters(view, operation);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_STREAM_RECV_FLAG_WAITALL;
    param.cb.recv_stream = data_received;
    const ucs_status_ptr_t request =
        ucp_stream_recv_nbx(ep, view.buffer, view.count, &operation.received, &param);
    started(request, "ucp_stream_recv_nbx");
    if (request == nullptr) {
        check_length(operation.received, length);
    }
}

void InFlight::put(ucp_ep_h ep, const View& view, uint64_t target, ucp_rkey_h rkey)
{
    const auto param = parameters(view, expect());
    started(ucp_put_nbx(ep, view.buffer, view.count, target, rkey, &param), "ucp_put_nbx");
}

void InFlight::get(ucp_ep_h ep, const View& view, uint64_t source, ucp_rkey_h rkey)
{
    const auto param = parameters(view, expect());
    started(ucp_get_nbx(ep, view.buffer, view.count, source, rkey, &param), "ucp_get_nbx");
}

void InFlight::atomic(ucp_ep_h ep, ucp_atomic_op_t opcode, const void* operand, void* reply,
                      uint64_t target, ucp_rkey_h rkey, size_t size)
{
    auto param = parameters(ucp_dt_make_contig(size), expect());
    if (reply != nullptr) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        param.reply_buffer = reply;
    }
    started(ucp_atomic_op_nbx(ep, opcode, operand, 1, target, rkey, &param), "ucp_atomic_op_nbx");
}

void InFlight::flush(ucp_ep_h ep)
{
    const auto param = parameters(ucp_dt_make_contig(1), expect());
    started(ucp_ep_flush_nbx(ep, &param), "ucp_ep_flush_nbx");
}

void InFlight::close(ucp_ep_h ep, bool force)
{
    auto param = parameters(ucp_dt_make_contig(1), expect());
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    started(ucp_ep_close_nbx(ep, &param), "ucp_ep_close_nbx");
}

void InFlight::wait(const std::string& what)
{
    worker_.wait([this] { return outstanding_ == 0 || status_ != UCS_OK; }, what);
    if (status_ != UCS_OK) {
        throw Failure(format("%s: %s", what.c_str(), error_.c_str()));
    }
    operations_.clear();
}

bool InFlight::wait_for(std::chrono::milliseconds limit)
{
    return worker_.wait_for([this] { return outstanding_ == 0; }, limit);
}

bool complete_between(InFlight& operations, Worker& one, Worker& other,
                      std::chrono::milliseconds limit)
{
    const auto until = Clock::now() + limit;
    while (operations.outstanding() > 0 && Clock::now() < until) {
        ucp_worker_progress(one.handle());
        ucp_worker_progress(other.handle());
    }
    return operations.outstanding() == 0;
}

void InFlight::cancel()
{
    for (Operation& operation : operations_) {
        if (operation.request != nullptr) {
            ucp_request_cancel(worker_.handle(), operation.request);
        }
    }
}

} // namespace ucptest
