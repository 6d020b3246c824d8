// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// libnccl.so.2, found at run time.
#pragma once

#include "mpi/nccl/abi.hpp"

#include <stdexcept>

namespace gdr::nccl {

struct Library {
    int version; // as NCCL_VERSION_CODE: 22304 is 2.23.4
    // Whether its calls return when they have put their work on the stream, as NCCL_COMM_BLOCKING=1
    // has it. Else a thread that NCCL starts for each call does that.
    bool blocks;
#define GDR_NCCL_MEMBER(name, parameters) Result(*name) parameters;
    GDR_NCCL_FUNCTIONS(GDR_NCCL_MEMBER)
#undef GDR_NCCL_MEMBER
    const char* (*GetErrorString)(Result result);
    const char* (*GetLastError)(Communicator* communicator); // of the process

    // Throws Error unless it is success.
    void check(Result result, const char* function) const;
};

class Error : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Loaded by the first call, for the life of the process. nullptr, said once in UCX's log with its
// cause, where there is none, or an older one than kOldest, or one that lacks a function. Any
// thread.
const Library* library();

} // namespace gdr::nccl
