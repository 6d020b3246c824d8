// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Two connected workers in one process.
#include "pair.hpp"

#include <cstring>
#include <numeric>

#include "../support/failure.hpp"
#include "../support/report.hpp"

namespace ucptest {
namespace {

constexpr uint64_t kFeatures = UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_AM;
constexpr ucp_tag_t kTag = 0x5d;
constexpr unsigned kAmId = 7;

} // namespace

Pair::Pair(MemoryKind kind, size_t size, size_t window)
    : near_(kFeatures, false), far_(kFeatures, false), ep_(connect(near_, far_)),
      back_(connect(far_, near_)), source_(kind, size, window, false),
      target_(kind, size, window, false), indices_(window), exposed_(far_, target_.memory()),
      remote_(ep_, exposed_.packed())
{
    std::iota(indices_.begin(), indices_.end(), 0);
    far_.handle_am(
        kAmId,
        [](void* self, const void* header, size_t, void* data, size_t,
           const ucp_am_recv_param_t* message) {
            size_t index;
            std::memcpy(&index, header, sizeof(index));
            return static_cast<Pair*>(self)->arrived(index, data, *message);
        },
        this);
}

ucp_ep_h Pair::connect(Worker& from, Worker& to)
{
    const auto address = to.address();
    ucp_ep_params_t params = {};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    ucp_ep_h ep = nullptr;
    require_ok(ucp_ep_create(from.handle(), &params, &ep), "ucp_ep_create");
    return ep;
}

uint64_t Pair::remote_address(size_t index)
{
    return remote_.address(static_cast<size_t>(static_cast<char*>(target_.address(index)) -
                                               static_cast<char*>(target_.memory().address())));
}

ucp_request_param_t Pair::parameters()
{
    ucp_request_param_t param = {};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.user_data = this;
    param.cb.send = [](void* request, ucs_status_t status, void* self) {
        static_cast<Pair*>(self)->finish(request, status);
    };
    return param;
}

void Pair::started(ucs_status_ptr_t request, const char* call)
{
    if (UCS_PTR_IS_ERR(request)) {
        throw Failure(format("%s: %s", call, ucs_status_string(UCS_PTR_STATUS(request))));
    }
    if (request != nullptr) {
        ++outstanding_;
    }
}

void Pair::finish(void* request, ucs_status_t status)
{
    --outstanding_;
    if (status != UCS_OK) {
        status_ = status;
    }
    ucp_request_free(request);
}

void Pair::put(size_t index)
{
    const auto param = parameters();
    started(ucp_put_nbx(ep_, source_.address(index), source_.size(), remote_address(index),
                        remote_.rkey(), &param),
            "ucp_put_nbx");
}

void Pair::get(size_t index)
{
    const auto param = parameters();
    started(ucp_get_nbx(ep_, source_.address(index), source_.size(), remote_address(index),
                        remote_.rkey(), &param),
            "ucp_get_nbx");
}

void Pair::send(size_t index)
{
    auto receive = parameters();
    receive.cb.recv = [](void* request, ucs_status_t status, const ucp_tag_recv_info_t*,
                         void* self) { static_cast<Pair*>(self)->finish(request, status); };
    started(ucp_tag_recv_nbx(far_.handle(), target_.address(index), target_.size(), kTag,
                             ~ucp_tag_t{0}, &receive),
            "ucp_tag_recv_nbx");
    const auto send = parameters();
    started(ucp_tag_send_nbx(ep_, source_.address(index), source_.size(), kTag, &send),
            "ucp_tag_send_nbx");
}

void Pair::send_am(size_t index)
{
    ++outstanding_; // until it has arrived
    const auto param = parameters();
    started(ucp_am_send_nbx(ep_, kAmId, &indices_[index], sizeof(size_t), source_.address(index),
                            source_.size(), &param),
            "ucp_am_send_nbx");
}

ucs_status_t Pair::arrived(size_t index, void* data, const ucp_am_recv_param_t& message)
{
    --outstanding_;
    if ((message.recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0) {
        target_.store(index, data);
        return UCS_OK;
    }
    auto receive = parameters();
    receive.cb.recv_am = [](void* request, ucs_status_t status, size_t, void* self) {
        static_cast<Pair*>(self)->finish(request, status);
    };
    started(
        ucp_am_recv_data_nbx(far_.handle(), data, target_.address(index), target_.size(), &receive),
        "ucp_am_recv_data_nbx");
    return UCS_INPROGRESS;
}

void Pair::drain(size_t outstanding)
{
    const auto until = Clock::now() + std::chrono::seconds(deadline_s());
    for (unsigned round = 1; outstanding_ > outstanding; ++round) {
        ucp_worker_progress(near_.handle());
        ucp_worker_progress(far_.handle());
        if (round % 65536 == 0 && Clock::now() > until) {
            throw Failure(format("%zu operations do not complete", outstanding_));
        }
    }
    require_ok(status_, "an operation");
}

void Pair::flush()
{
    const auto param = parameters();
    started(ucp_worker_flush_nbx(near_.handle(), &param), "ucp_worker_flush_nbx");
    drain(0);
}

void Pair::settle_caches()
{
    const Memory memory(MemoryKind::kHost, 4096);
    const ExposedMemory near(near_, memory);
    const ExposedMemory far(far_, memory);
}

void Pair::close()
{
    flush();
    for (ucp_ep_h ep : {ep_, back_}) {
        const auto param = parameters();
        started(ucp_ep_close_nbx(ep, &param), "ucp_ep_close_nbx");
    }
    drain(0);
}

} // namespace ucptest
