/* Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
 *
 * Included before UCX's example ucp_client_server: its races, decided
 * (docs/developers/defects.md). That of 1.13 closes its endpoint as soon as its messages are sent,
 * and UCP drops what the receiver of a stream has not read by then: here the client closes when
 * there is a file that says that the server has received everything. Those of 1.15 and later
 * register the client's active message handler when the server's answer may have come already: here
 * before the first message. */
#include <stdlib.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

static ucp_worker_h worker_of_endpoint;

static inline ucs_status_t create_and_remember(ucp_worker_h worker, const ucp_ep_params_t* params,
                                               ucp_ep_h* ep)
{
    worker_of_endpoint = worker;
    return ucp_ep_create(worker, params, ep);
}

static inline ucs_status_ptr_t close_after_receipt(ucp_ep_h ep, const ucp_request_param_t* param)
{
    const char* receipt = getenv("EXAMPLE_RECEIPT");
    while (receipt != NULL && *receipt != 0 && access(receipt, F_OK) != 0) {
        ucp_worker_progress(worker_of_endpoint);
    }
    return ucp_ep_close_nbx(ep, param);
}

ucs_status_t register_am_recv_callback(ucp_worker_h worker)
    __attribute__((weak)); /* of 1.15 and later */

static inline ucs_status_ptr_t send_when_registered(ucp_ep_h ep, unsigned id, const void* header,
                                                    size_t header_length, const void* buffer,
                                                    size_t count, const ucp_request_param_t* param)
{
    if (register_am_recv_callback) {
        register_am_recv_callback(worker_of_endpoint);
    }
    return ucp_am_send_nbx(ep, id, header, header_length, buffer, count, param);
}

#define ucp_am_send_nbx send_when_registered
#define ucp_ep_create create_and_remember
#define ucp_ep_close_nbx close_after_receipt
