// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCS's status of a work completion.
#pragma once

#include <infiniband/verbs.h>

extern "C" {
#include <uct/api/uct.h>
}

namespace gdr::rc {

inline ucs_status_t to_status(ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_SUCCESS:
        return UCS_OK;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return UCS_ERR_ENDPOINT_TIMEOUT;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
        return UCS_ERR_CONNECTION_RESET;
    case IBV_WC_WR_FLUSH_ERR:
        return UCS_ERR_CANCELED;
    default:
        return UCS_ERR_IO_ERROR;
    }
}

} // namespace gdr::rc
