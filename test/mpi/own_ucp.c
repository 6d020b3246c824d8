// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// For mpi_short_sends: a UCP context beside the MPI library's, which sends to itself.
#include <ucp/api/ucp.h>

enum { BYTES = 8 };

static int finish(ucp_worker_h worker, void* request)
{
    if (!UCS_PTR_IS_PTR(request)) {
        return UCS_PTR_STATUS(request) != UCS_OK;
    }
    while (ucp_request_check_status(request) == UCS_INPROGRESS) {
        ucp_worker_progress(worker);
    }
    const int failed = ucp_request_check_status(request) != UCS_OK;
    ucp_request_free(request);
    return failed;
}

int send_from(const void* memory);
int send_from(const void* memory)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_context_h context;
    ucp_worker_params_t worker_params = {0};
    ucp_worker_h worker;
    ucp_address_t* address;
    size_t length;
    if (ucp_init(&params, NULL, &context) != UCS_OK ||
        ucp_worker_create(context, &worker_params, &worker) != UCS_OK ||
        ucp_worker_get_address(worker, &address, &length) != UCS_OK) {
        return 1;
    }
    ucp_ep_params_t ep_params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                                 .address = address};
    ucp_ep_h ep;
    if (ucp_ep_create(worker, &ep_params, &ep) != UCS_OK) {
        return 2;
    }
    const ucp_request_param_t nothing = {0};
    for (int i = 0; i < 10; ++i) {
        char received[BYTES];
        void* wanted = ucp_tag_recv_nbx(worker, received, BYTES, 1, -1, &nothing);
        if (finish(worker, ucp_tag_send_nbx(ep, memory, BYTES, 1, &nothing)) ||
            finish(worker, wanted)) {
            return 3;
        }
    }
    finish(worker, ucp_ep_close_nbx(ep, &nothing));
    ucp_worker_release_address(worker, address);
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    return 0;
}
