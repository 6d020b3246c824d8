// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// libnccl.so.2, found at run time.
#pragma once

#include "mpi/nccl/abi.hpp"

#include <stdexcept>

namespace gdr::nccl {

struct Library {
    int version; // as NCCL_VERSION_CODE: 22304 is 2.23.4
    // Whether calls return after they have put their work on the stream (NCCL_COMM_BLOCKING=1).
    // Otherwise NCCL starts a thread for each call that does so.
    bool blocks;
#define GDR_NCCL_MEMBER(name, parameters) Result(*name) parameters;
    GDR_NCCL_FUNCTIONS(GDR_NCCL_MEMBER)
#undef GDR_NCCL_MEMBER
    const char* (*GetErrorString)(Result result);
    const char* (*GetLastError)(Communicator* communicator); // of the process

    // Throws Error unless the result is success.
    void check(Result result, const char* function) const;
};

class Error : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The first call loads it, for the life of the process. Returns nullptr, and logs the cause once,
// if there is no NCCL, one older than kOldest, or one that lacks a function. Any thread.
const Library* library();

} // namespace gdr::nccl
