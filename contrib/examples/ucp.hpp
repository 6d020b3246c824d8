// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// As much of UCP and libucx-gdr as the examples have in common. MPI carries the workers' addresses.
#pragma once

#include <string>

#include <ucx-gdr/ugdr.h>

#include "gpu.hpp"

namespace ucp {

inline void check(ucs_status_t status, const char* what)
{
    if (status != UCS_OK) {
        gpu::fail(what, ucs_status_string(status));
    }
}

// For tagged messages, by any thread: libucx-gdr's uses it beside the program's.
inline ucp_worker_h create_worker()
{
    ucp_params_t params = {};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG;
    ucp_context_h context;
    check(ucp_init(&params, nullptr, &context), "ucp_init");
    ucp_worker_params_t worker_params = {};
    worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker_params.thread_mode = UCS_THREAD_MODE_MULTI;
    ucp_worker_h worker;
    check(ucp_worker_create(context, &worker_params, &worker), "ucp_worker_create");
    return worker;
}

// Both ranks call it.
inline ucp_ep_h connect(ucp_worker_h worker, int peer)
{
    ucp_address_t* own;
    size_t size;
    check(ucp_worker_get_address(worker, &own, &size), "ucp_worker_get_address");
    std::string address(65536, '\0');
    MPI_Sendrecv(own, static_cast<int>(size), MPI_BYTE, peer, 0, address.data(),
                 static_cast<int>(address.size()), MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    ucp_worker_release_address(worker, own);
    ucp_ep_params_t params = {};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    ucp_ep_h ep;
    check(ucp_ep_create(worker, &params, &ep), "ucp_ep_create");
    return ep;
}

// libucx-gdr's thread, for operations on this worker.
class Context {
  public:
    explicit Context(ucp_worker_h worker)
    {
        ugdr_context_params_t params = {};
        params.field_mask = UGDR_CONTEXT_PARAM_FIELD_WORKER;
        params.worker = worker;
        check(ugdr_context_create(&params, &context_), "ugdr_context_create");
    }
    ~Context()
    {
        ucs_status_t status;
        do { // CUDA tells of the end of graphs later
            status = ugdr_context_destroy(context_, 0);
        } while (status == UCS_ERR_BUSY);
        check(status, "ugdr_context_destroy");
    }
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    operator ugdr_context_h() const { return context_; }

  private:
    ugdr_context_h context_;
};

// Where the stream is now; in a capture, a place that every launch of the graph comes by.
class Point {
  public:
    Point(ugdr_context_h context, CUstream stream)
    {
        ugdr_condition_params_t params = {};
        params.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY | UGDR_CONDITION_PARAM_FIELD_STREAM;
        params.category = UGDR_CONDITION_STREAM;
        params.stream = stream;
        check(ugdr_condition_create(context, &params, &condition_), "ugdr_condition_create");
    }
    ~Point() { ugdr_condition_destroy(condition_); }
    Point(const Point&) = delete;
    Point& operator=(const Point&) = delete;

    // For an operation that starts there; flags: of ugdr_op_flags.
    ugdr_op_param_t param(uint64_t flags = 0) const
    {
        ugdr_op_param_t param = {};
        param.field_mask = UGDR_OP_PARAM_FIELD_CONDITION | UGDR_OP_PARAM_FIELD_FLAGS;
        param.condition = condition_;
        param.flags = flags;
        return param;
    }

  private:
    ugdr_condition_h condition_;
};

} // namespace ucp
