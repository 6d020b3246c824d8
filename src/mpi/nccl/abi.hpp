// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The part of NCCL's binary interface that the layer uses. It is declared here by hand, since no
// nccl.h is used; a test compares it with the installed nccl.h. It has not changed since NCCL 2.14.
#pragma once

#include <climits>
#include <cstddef>

#include <cuda.h>

namespace gdr::nccl {

inline constexpr int kOldest = 21400; // 2.14.0, the first with non-blocking communicators

enum class Result : int { // ncclResult_t
    success = 0,
    unhandled_cuda_error = 1,
    system_error = 2,
    internal_error = 3,
    invalid_argument = 4,
    invalid_usage = 5,
    remote_error = 6,
    in_progress = 7,
};

enum class Type : int { // ncclDataType_t
    int8 = 0,
    uint8 = 1,
    int32 = 2,
    uint32 = 3,
    int64 = 4,
    uint64 = 5,
    float32 = 7,
    float64 = 8,
};

enum class Operation : int { // ncclRedOp_t
    sum = 0,
    prod = 1,
    max = 2,
    min = 3,
};

struct UniqueId { // ncclUniqueId
    char bytes[128];
};

// ncclConfig_t of NCCL 2.14. Later ones are longer; NCCL takes missing fields as not set.
struct Config {
    size_t size = sizeof(Config);
    unsigned magic = 0xcafebeef;
    unsigned version = kOldest;
    int blocking = 0;
    int cga_cluster_size = INT_MIN; // not set; of 2.17, fills padding here
};

struct Communicator; // ncclComm

} // namespace gdr::nccl

// Name without "nccl", and parameters, of functions that return a Result.
#define GDR_NCCL_FUNCTIONS(FUNCTION)                                                               \
    FUNCTION(GetVersion, (int* version))                                                           \
    FUNCTION(GetUniqueId, (UniqueId * id))                                                         \
    FUNCTION(CommInitRankConfig,                                                                   \
             (Communicator * *made, int ranks, UniqueId id, int rank, Config* config))             \
    FUNCTION(CommFinalize, (Communicator * communicator))                                          \
    FUNCTION(CommDestroy, (Communicator * communicator))                                           \
    FUNCTION(CommAbort, (Communicator * communicator))                                             \
    FUNCTION(CommGetAsyncError, (Communicator * communicator, Result * error))                     \
    FUNCTION(GroupStart, ())                                                                       \
    FUNCTION(GroupEnd, ())                                                                         \
    FUNCTION(AllGather, (const void* from, void* to, size_t count, Type type,                      \
                         Communicator* communicator, CUstream stream))                             \
    FUNCTION(AllReduce, (const void* from, void* to, size_t count, Type type, Operation operation, \
                         Communicator* communicator, CUstream stream))                             \
    FUNCTION(Broadcast, (const void* from, void* to, size_t count, Type type, int root,            \
                         Communicator* communicator, CUstream stream))                             \
    FUNCTION(Recv, (void* to, size_t count, Type type, int peer, Communicator* communicator,       \
                    CUstream stream))                                                              \
    FUNCTION(Reduce, (const void* from, void* to, size_t count, Type type, Operation operation,    \
                      int root, Communicator* communicator, CUstream stream))                      \
    FUNCTION(ReduceScatter, (const void* from, void* to, size_t count, Type type,                  \
                             Operation operation, Communicator* communicator, CUstream stream))    \
    FUNCTION(Send, (const void* from, size_t count, Type type, int peer,                           \
                    Communicator* communicator, CUstream stream))
