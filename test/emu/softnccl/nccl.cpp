// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// softnccl, a libnccl.so.2 for softcuda: what src/mpi/nccl/abi.hpp declares, between processes of
// one host, with the rules of NCCL that matter there: one rank to a GPU, communicators that do not
// block (others it does not make, but with NCCL_COMM_BLOCKING=1 as NCCL does), calls that are in
// progress until they are on the stream, and a rank's failure that nobody tells the others of.
//
//     SOFTNCCL_VERSION  what ncclGetVersion tells (default 22304)
//     SOFTNCCL_FAULT    init:RANK            the rank's communicator cannot be made
//                       async:RANK:N         its Nth operation fails, and does not end
//                       stall:RANK:N:MS      its Nth operation begins so much later
//     SOFTNCCL_STATS    a file to which each process that loaded it appends a line as it ends:
//                       communicators made, destroyed, aborted, operations, the
//                       broadcasts among these, and how many operations were under way at once
#include "emu/softnccl/communicator.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#define SOFTNCCL_EXPORT extern "C" __attribute__((visibility("default")))

using gdr::nccl::Config;
using gdr::nccl::UniqueId;
using softnccl::Communicator;
using softnccl::Operation;
using softnccl::Order;
using softnccl::Result;
using softnccl::Type;

namespace {

std::atomic<unsigned> made, destroyed, aborted, broadcasts;

struct AtEnd {
    ~AtEnd()
    {
        const char* const path = std::getenv("SOFTNCCL_STATS");
        FILE* const file = path != nullptr ? std::fopen(path, "a") : nullptr;
        if (file == nullptr) {
            return;
        }
        std::fprintf(file,
                     "made=%u destroyed=%u aborted=%u operations=%u broadcasts=%u at_once=%u\n",
                     made.load(), destroyed.load(), aborted.load(), softnccl::operations.load(),
                     broadcasts.load(), softnccl::at_once.load());
        std::fclose(file);
    }
} at_end;

bool blocks()
{
    static const char* const blocking = std::getenv("NCCL_COMM_BLOCKING");
    return blocking != nullptr && std::strcmp(blocking, "1") == 0;
}

// What a function returns that has the communicator do something.
Result begun(const Communicator& communicator)
{
    while (blocks() && communicator.state() == Result::in_progress) {
        std::this_thread::yield();
    }
    return blocks() ? communicator.state() : Result::in_progress;
}

// What this thread has told since ncclGroupStart: of one communicator, on one stream.
struct Group {
    int depth = 0;
    std::vector<Order> orders;
    Communicator* communicator = nullptr;
    CUstream stream = nullptr;
};
thread_local Group group;

Result add(Order order, Communicator* communicator, CUstream stream)
{
    if (communicator == nullptr ||
        (order.count > 0 && order.from == nullptr && order.to == nullptr)) {
        return Result::invalid_argument;
    }
    if (group.depth == 0) {
        communicator->issue({order}, stream);
        return begun(*communicator);
    }
    group.orders.push_back(order);
    group.communicator = communicator;
    group.stream = stream;
    return Result::success;
}

const char* bytes(const void* pointer)
{
    return static_cast<const char*>(pointer);
}
char* bytes(void* pointer)
{
    return static_cast<char*>(pointer);
}

} // namespace

SOFTNCCL_EXPORT Result ncclGetVersion(int* version)
{
    const char* const told = std::getenv("SOFTNCCL_VERSION");
    *version = told != nullptr ? std::atoi(told) : 22304;
    return Result::success;
}

SOFTNCCL_EXPORT const char* ncclGetErrorString(Result result)
{
    switch (result) {
    case Result::success:
        return "no error";
    case Result::system_error:
        return "unhandled system error";
    case Result::invalid_usage:
        return "invalid usage";
    case Result::remote_error:
        return "remote process exited or there was a network error";
    default:
        return "another error";
    }
}

SOFTNCCL_EXPORT const char* ncclGetLastError(Communicator*)
{
    static thread_local std::string text;
    text = softnccl::last_error();
    return text.c_str();
}

SOFTNCCL_EXPORT Result ncclGetUniqueId(UniqueId* id)
{
    static std::atomic<unsigned> number;
    std::snprintf(id->bytes, sizeof(id->bytes), "/softnccl.%d.%u", getpid(), number++);
    return Result::success;
}

SOFTNCCL_EXPORT Result ncclCommInitRankConfig(Communicator** communicator, int ranks, UniqueId id,
                                              int rank, Config* config)
{
    if (config->magic != 0xcafebeef || config->version < 21400 || config->size < sizeof(Config) ||
        config->blocking != 0 || rank < 0 || rank >= ranks) {
        return Result::invalid_argument;
    }
    *communicator = new Communicator(id.bytes, ranks, rank);
    ++made;
    return begun(**communicator);
}

SOFTNCCL_EXPORT Result ncclCommGetAsyncError(Communicator* communicator, Result* result)
{
    *result = communicator->state();
    return Result::success;
}

SOFTNCCL_EXPORT Result ncclCommFinalize(Communicator* communicator)
{
    communicator->finalize();
    return begun(*communicator);
}

SOFTNCCL_EXPORT Result ncclCommDestroy(Communicator* communicator)
{
    ++destroyed;
    delete communicator;
    return Result::success;
}

SOFTNCCL_EXPORT Result ncclCommAbort(Communicator* communicator)
{
    ++aborted;
    communicator->abort();
    delete communicator;
    return Result::success;
}

SOFTNCCL_EXPORT Result ncclGroupStart()
{
    ++group.depth;
    return Result::success;
}

SOFTNCCL_EXPORT Result ncclGroupEnd()
{
    if (--group.depth > 0 || group.orders.empty()) {
        return Result::success;
    }
    const Group all = std::move(group);
    group = {};
    all.communicator->issue(all.orders, all.stream);
    return begun(*all.communicator);
}

SOFTNCCL_EXPORT Result ncclAllGather(const void* from, void* to, size_t count, Type type,
                                     Communicator* communicator, CUstream stream)
{
    return add({Order::Kind::all_gather, bytes(from), bytes(to), count, type, {}, 0}, communicator,
               stream);
}

SOFTNCCL_EXPORT Result ncclAllReduce(const void* from, void* to, size_t count, Type type,
                                     Operation operation, Communicator* communicator,
                                     CUstream stream)
{
    return add({Order::Kind::all_reduce, bytes(from), bytes(to), count, type, operation, 0},
               communicator, stream);
}

SOFTNCCL_EXPORT Result ncclBroadcast(const void* from, void* to, size_t count, Type type, int root,
                                     Communicator* communicator, CUstream stream)
{
    ++broadcasts;
    return add({Order::Kind::broadcast, bytes(from), bytes(to), count, type, {}, root},
               communicator, stream);
}

SOFTNCCL_EXPORT Result ncclRecv(void* to, size_t count, Type type, int peer,
                                Communicator* communicator, CUstream stream)
{
    return add({Order::Kind::receive, nullptr, bytes(to), count, type, {}, peer}, communicator,
               stream);
}

SOFTNCCL_EXPORT Result ncclReduce(const void* from, void* to, size_t count, Type type,
                                  Operation operation, int root, Communicator* communicator,
                                  CUstream stream)
{
    return add({Order::Kind::reduce, bytes(from), bytes(to), count, type, operation, root},
               communicator, stream);
}

SOFTNCCL_EXPORT Result ncclReduceScatter(const void* from, void* to, size_t count, Type type,
                                         Operation operation, Communicator* communicator,
                                         CUstream stream)
{
    return add({Order::Kind::reduce_scatter, bytes(from), bytes(to), count, type, operation, 0},
               communicator, stream);
}

SOFTNCCL_EXPORT Result ncclSend(const void* from, size_t count, Type type, int peer,
                                Communicator* communicator, CUstream stream)
{
    return add({Order::Kind::send, bytes(from), nullptr, count, type, {}, peer}, communicator,
               stream);
}
