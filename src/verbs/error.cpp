// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Texts of verbs errors.
#include "verbs/error.hpp"

#include <infiniband/verbs.h>
#include <system_error>

namespace gdr::verbs {

std::string errno_text(int error_number)
{
    if (error_number == kKernelNotSupported) {
        return "not supported (errno 524)";
    }
    return std::generic_category().message(error_number);
}

Error::Error(const std::string& what, int error_number, const char* remedy)
    : std::runtime_error(what + " failed: " + errno_text(error_number) + remedy),
      error_number_(error_number)
{
}

const char* completion_cause(int wc_status)
{
    switch (wc_status) {
    case IBV_WC_RETRY_EXC_ERR:
        return "the peer does not answer: its process ended, its port is down or the fabric lost "
               "it";
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return "the peer posted no receive buffer in time";
    case IBV_WC_REM_ACCESS_ERR:
        return "the peer's memory may not be accessed there: wrong or released remote key, or out "
               "of its bounds";
    case IBV_WC_REM_INV_REQ_ERR:
        return "the peer's HCA refused the request: message longer than its receive buffer, or an "
               "operation it does not allow";
    case IBV_WC_REM_OP_ERR:
        return "the peer's HCA could not complete the request";
    case IBV_WC_LOC_PROT_ERR:
        return "a local buffer is not covered by its registration";
    case IBV_WC_LOC_LEN_ERR:
        return "a received message was longer than the buffer";
    case IBV_WC_WR_FLUSH_ERR:
        return "the queue pair was closed by an earlier error";
    default:
        return "the local HCA could not carry it out (dmesg may say why)";
    }
}

} // namespace gdr::verbs
