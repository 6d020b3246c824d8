// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCP operations between two processes that a bench times: a context of each, connected, with
// memory to send from and memory that the peer may send into.
#pragma once

#include <memory>
#include <vector>

#include "../ucp/support/endpoints.hpp"
#include "../ucp/support/failure.hpp"
#include "../ucp/support/memory.hpp"
#include "../ucp/support/ranks.hpp"
#include "../ucp/support/remote_memory.hpp"
#include "../ucp/support/worker.hpp"

namespace ucptest {

// Both ranks make one, together, and close() it before it goes.
class Pair {
  public:
    // Whether operations tell UCP what memory they are given, or UCP has to find out.
    enum class MemoryType { kTold, kDetected };

    // near is read, far is written into, by operations of the peer, too. Both outlive the pair.
    Pair(Ranks& ranks, const Memory& near, const Memory& far, MemoryType type)
        : ranks_(ranks), worker_(UCP_FEATURE_TAG | UCP_FEATURE_RMA, false),
          endpoints_(ranks, worker_, Endpoints::Connect::kWorkerAddress, false), near_(near),
          far_(far), exposed_(worker_, far), ep_(endpoints_.to(1 - ranks.rank()))
    {
        const auto packed =
            ranks.exchange([&](int) { return exposed_.packed(); }, worker_, "remote memory");
        remote_ =
            std::make_unique<RemoteMemory>(ep_, packed.at(static_cast<size_t>(1 - ranks.rank())));
        if (type == MemoryType::kTold) {
            param_.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE;
            param_.memory_type = ucs_type(near.kind());
        }
    }

    // Both ranks, together.
    void close()
    {
        remote_.reset();
        endpoints_.close();
    }

    Worker& worker() { return worker_; }

    // Each starts an operation that complete() waits for.
    void send(size_t size) { start(ucp_tag_send_nbx(ep_, near_.address(), size, kTag, &param_)); }
    void receive(size_t size)
    {
        start(ucp_tag_recv_nbx(worker_.handle(), far_.address(), size, kTag, ~0ULL, &param_));
    }
    void put(size_t size)
    {
        start(
            ucp_put_nbx(ep_, near_.address(), size, remote_->address(0), remote_->rkey(), &param_));
    }
    void get(size_t size)
    {
        start(
            ucp_get_nbx(ep_, near_.address(), size, remote_->address(0), remote_->rkey(), &param_));
    }
    // What was put is in the peer's memory.
    void flush()
    {
        const ucp_request_param_t param = {};
        start(ucp_ep_flush_nbx(ep_, &param));
    }

    void complete()
    {
        for (void* request : under_way_) {
            while (ucp_request_check_status(request) == UCS_INPROGRESS) {
                ucp_worker_progress(worker_.handle());
            }
            require_ok(ucp_request_check_status(request), "a UCP operation");
            ucp_request_free(request);
        }
        under_way_.clear();
    }

    // There and back.
    void ping_pong(size_t size)
    {
        for (const int sender : {0, 1}) {
            if (ranks_.rank() == sender) {
                send(size);
            } else {
                receive(size);
            }
            complete();
        }
    }

  private:
    static constexpr ucp_tag_t kTag = 1;

    void start(ucs_status_ptr_t request)
    {
        if (UCS_PTR_IS_ERR(request)) {
            require_ok(UCS_PTR_STATUS(request), "a UCP operation");
        }
        if (request != nullptr) {
            under_way_.push_back(request);
        }
    }

    Ranks& ranks_;
    Worker worker_;
    Endpoints endpoints_;
    const Memory& near_;
    const Memory& far_;
    ExposedMemory exposed_;
    ucp_ep_h ep_;
    std::unique_ptr<RemoteMemory> remote_;
    ucp_request_param_t param_ = {};
    std::vector<void*> under_way_;
};

} // namespace ucptest
