// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/collectives/nccl_communicator.hpp"

#include "cuda/relaxed_capture.hpp"
#include "log/log.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <string>
#include <utility>

#include <sched.h>

namespace gdr::mpi {

namespace {

using Gpu = std::array<char, 16>; // a UUID

using nccl::Result;

std::optional<nccl::Type> type_of(kernels::Type type)
{
    switch (type) {
    case kernels::Type::int8:
        return nccl::Type::int8;
    case kernels::Type::uint8:
        return nccl::Type::uint8;
    case kernels::Type::int32:
        return nccl::Type::int32;
    case kernels::Type::uint32:
        return nccl::Type::uint32;
    case kernels::Type::int64:
        return nccl::Type::int64;
    case kernels::Type::uint64:
        return nccl::Type::uint64;
    case kernels::Type::float32:
        return nccl::Type::float32;
    case kernels::Type::float64:
        return nccl::Type::float64;
    default:
        return std::nullopt;
    }
}

std::optional<nccl::Operation> operation_of(kernels::Operation operation)
{
    switch (operation) {
    case kernels::Operation::sum:
        return nccl::Operation::sum;
    case kernels::Operation::prod:
        return nccl::Operation::prod;
    case kernels::Operation::min:
        return nccl::Operation::min;
    case kernels::Operation::max:
        return nccl::Operation::max;
    default:
        return std::nullopt;
    }
}

// Once, since there may be many communicators.
void tell_once(const Team& team, const std::string& cause)
{
    static std::atomic_flag told = ATOMIC_FLAG_INIT;
    if (!told.test_and_set()) {
        gdr_log(warn, "collective calls of MPI of %d ranks are not made by NCCL: %s", team.size(),
                cause.c_str());
    }
}

// Two ranks on the same GPU; -1 if there are none.
std::pair<int, int> sharing(const std::vector<Gpu>& gpus)
{
    for (size_t rank = 0; rank < gpus.size(); ++rank) {
        const auto other =
            std::find(gpus.begin(), gpus.begin() + static_cast<ptrdiff_t>(rank), gpus[rank]);
        if (other != gpus.begin() + static_cast<ptrdiff_t>(rank)) {
            return {static_cast<int>(other - gpus.begin()), static_cast<int>(rank)};
        }
    }
    return {-1, -1};
}

} // namespace

std::optional<NcclReduction> nccl_reduction(const PredefinedReduction& reduction)
{
    const auto type = type_of(reduction.type);
    const auto operation = operation_of(reduction.operation);
    if (!type || !operation) {
        return std::nullopt;
    }
    return NcclReduction{*type, *operation};
}

std::unique_ptr<NcclCommunicator> NcclCommunicator::make(const nccl::Library& nccl,
                                                         const Team& team,
                                                         const cuda::Driver& driver,
                                                         const ThreadStream& stream)
{
    Gpu gpu = {};
    CUuuid uuid;
    static_assert(sizeof(uuid) == sizeof(gpu));
    // The UUID of the GPU even if it is divided into instances: NCCL takes one rank for each GPU.
    if (driver.cuDeviceGetUuid(&uuid, stream.device()) == CUDA_SUCCESS) {
        std::copy_n(uuid.bytes, sizeof(uuid), gpu.begin());
    }
    if (const auto [one, other] = sharing(team.gather(gpu)); one >= 0) {
        if (team.rank() == 0) {
            tell_once(team, "ranks " + std::to_string(one) + " and " + std::to_string(other) +
                                " share a GPU, and NCCL takes one rank for each (start no more "
                                "ranks than there are GPUs, or give each its own)");
        }
        return nullptr;
    }
    struct {
        nccl::UniqueId id;
        Result result;
    } root = {};
    if (team.rank() == 0) {
        root.result = nccl.GetUniqueId(&root.id);
    }
    team.broadcast(&root, sizeof(root));
    if (root.result != Result::success) {
        if (team.rank() == 0) {
            tell_once(team, std::string("ncclGetUniqueId: ") + nccl.GetErrorString(root.result));
        }
        return nullptr;
    }
    auto made = std::make_unique<NcclCommunicator>(nccl, team, driver, stream);
    const bool started = made->start(root.id);
    if (team.all(started)) {
        return made;
    }
    if (started) {
        tell_once(team, "another rank could not begin, and says why");
    }
    made->abort();
    made->finish_end();
    return nullptr;
}

NcclCommunicator::NcclCommunicator(const nccl::Library& nccl, const Team& team,
                                   const cuda::Driver& driver, const ThreadStream& stream)
    : nccl_(nccl), team_(team), driver_(driver), device_(stream.device()),
      context_(stream.context()), context_id_(stream.context_id()), notices_(team)
{
    const cuda::RelaxedCapture relaxed(driver);
    cuda::check(driver.cuEventCreate(&done_, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
}

// The caller must end the communicator in either case. Throws MpiError.
bool NcclCommunicator::start(const nccl::UniqueId& id)
{
    constexpr const char* kFunction = "ncclCommInitRankConfig";
    const cuda::RelaxedCapture relaxed(driver_);
    nccl::Config config;
    try {
        settle(nccl_.CommInitRankConfig(&communicator_, team_.size(), id, team_.rank(), &config),
               kFunction);
        return true;
    } catch (const nccl::Error& error) {
        tell_once(team_, error.what());
        if (!notices_.arrived()) {
            notices_.send();
        }
        return false;
    }
}

bool NcclCommunicator::serves(const ThreadStream& stream)
{
    if (communicator_ != nullptr && notices_.arrived()) {
        abort();
    }
    return communicator_ != nullptr && stream.device() == device_ && stream.context() == context_ &&
           stream.context_id() == context_id_;
}

// NCCL's state on this rank. Throws nccl::Error if another rank has failed.
Result NcclCommunicator::state(const char* function)
{
    if (notices_.arrived()) {
        throw nccl::Error(std::string(function) + ": it has failed on another rank");
    }
    Result result = Result::success;
    nccl_.check(nccl_.CommGetAsyncError(communicator_, &result), "ncclCommGetAsyncError");
    return result;
}

// Waits until NCCL has finished the call, which may include issuing work on a stream.
void NcclCommunicator::settle(Result result, const char* function)
{
    while (result == Result::in_progress) {
        result = state(function);
        sched_yield(); // a thread of NCCL works on it
    }
    nccl_.check(result, function);
}

void NcclCommunicator::wait(const ThreadStream& stream, const char* function)
{
    cuda::check(driver_.cuEventRecord(done_, stream.handle()), "cuEventRecord");
    CUresult result;
    while ((result = driver_.cuEventQuery(done_)) == CUDA_ERROR_NOT_READY) {
        if (const Result found = state(function); found != Result::in_progress) {
            nccl_.check(found, function);
        }
    }
    cuda::check(result, "cuEventQuery");
}

// issue() calls NCCL and returns its result.
template <class Issue>
void NcclCommunicator::run(const ThreadStream& stream, const char* function, Issue issue)
{
    const cuda::RelaxedCapture relaxed(driver_);
    try {
        nccl_.check(nccl_.GroupStart(), "ncclGroupStart");
        const Result issued = issue();
        const Result ended = nccl_.GroupEnd();
        settle(issued == Result::success || issued == Result::in_progress ? ended : issued,
               function);
        wait(stream, function);
    } catch (...) {
        abort();
        stream.settle();
        if (!notices_.arrived()) {
            notices_.send();
        }
        throw;
    }
}

void NcclCommunicator::abort() noexcept
{
    if (communicator_ != nullptr) {
        nccl_.CommAbort(std::exchange(communicator_, nullptr));
    }
}

void NcclCommunicator::allgather(const ThreadStream& stream, const char* mine, char* all,
                                 uint64_t each)
{
    run(stream, "ncclAllGather", [&] {
        return nccl_.AllGather(mine, all, each, nccl::Type::int8, communicator_, stream.handle());
    });
}

void NcclCommunicator::allreduce(const ThreadStream& stream, NcclReduction reduction,
                                 const char* in, char* out, uint64_t bytes, uint64_t element)
{
    run(stream, "ncclAllReduce", [&] {
        return nccl_.AllReduce(in, out, bytes / element, reduction.type, reduction.operation,
                               communicator_, stream.handle());
    });
}

void NcclCommunicator::alltoall(const ThreadStream& stream, const char* in, char* out,
                                uint64_t each)
{
    run(stream, "ncclSend and ncclRecv", [&] {
        Result result = Result::success;
        for (int peer = 0; peer < team_.size() && result == Result::success; ++peer) {
            result = nccl_.Send(in + each * static_cast<uint64_t>(peer), each, nccl::Type::int8,
                                peer, communicator_, stream.handle());
            if (result == Result::success) {
                result = nccl_.Recv(out + each * static_cast<uint64_t>(peer), each,
                                    nccl::Type::int8, peer, communicator_, stream.handle());
            }
        }
        return result;
    });
}

void NcclCommunicator::broadcast(const ThreadStream& stream, char* data, uint64_t bytes, int root)
{
    run(stream, "ncclBroadcast", [&] {
        return nccl_.Broadcast(data, data, bytes, nccl::Type::int8, root, communicator_,
                               stream.handle());
    });
}

void NcclCommunicator::reduce(const ThreadStream& stream, NcclReduction reduction, const char* in,
                              char* out, uint64_t bytes, uint64_t element, int root)
{
    run(stream, "ncclReduce", [&] {
        return nccl_.Reduce(in, out, bytes / element, reduction.type, reduction.operation, root,
                            communicator_, stream.handle());
    });
}

void NcclCommunicator::reduce_scatter(const ThreadStream& stream, NcclReduction reduction,
                                      const char* in, char* out, const BlocksOfRanks& blocks,
                                      uint64_t element)
{
    if (blocks.equal()) {
        run(stream, "ncclReduceScatter", [&] {
            return nccl_.ReduceScatter(in, out, blocks.longest() / element, reduction.type,
                                       reduction.operation, communicator_, stream.handle());
        });
        return;
    }
    run(stream, "ncclReduce", [&] {
        Result result = Result::success;
        for (int root = 0; root < blocks.ranks() && result == Result::success; ++root) {
            result = nccl_.Reduce(in + blocks.begin(root), out, blocks.length(root) / element,
                                  reduction.type, reduction.operation, root, communicator_,
                                  stream.handle());
        }
        return result;
    });
}

void NcclCommunicator::begin_end()
{
    if (communicator_ != nullptr) {
        ending_ = nccl_.CommFinalize(communicator_);
    }
}

void NcclCommunicator::finish_end()
{
    try {
        if (communicator_ != nullptr) {
            settle(ending_, "ncclCommFinalize");
            nccl_.CommDestroy(std::exchange(communicator_, nullptr));
        }
    } catch (const std::exception& error) {
        gdr_log(diag,
                "ending NCCL's communicator of %d ranks failed, so it is aborted: %s. Calls that "
                "have returned are complete; NCCL_DEBUG=WARN shows NCCL's reason",
                team_.size(), error.what());
        abort();
    }
    driver_.cuEventDestroy(done_);
    notices_.stop();
}

} // namespace gdr::mpi
