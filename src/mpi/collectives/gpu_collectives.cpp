// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Only its own rank knows whether a buffer is on a GPU, so the ranks vote in each call that is
// large enough.
#include "mpi/collectives/gpu_collectives.hpp"

#include "log/log.hpp"
#include "mpi/collectives/means.hpp"
#include "mpi/collectives/predefined_reductions.hpp"
#include "mpi/collectives/ring.hpp"
#include "mpi/gpu/device_memory.hpp"
#include "mpi/gpu/device_scratch.hpp"
#include "mpi/gpu/gpu_kernels.hpp"
#include "mpi/interface/arguments.hpp"
#include "stats/statistics.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <string_view>
#include <utility>

namespace gdr::mpi {

namespace {

// Bytes of all ranks together. A vote takes some microseconds, and so does each message of a ring:
// below this, staging is as fast.
constexpr uint64_t kRingFrom = 256 << 10;
constexpr uint64_t kRingFromBlock = 16 << 10; // of each rank
// A call of blocking NCCL takes 22 to 36 us with 64 KiB to 1 MiB, including vote and wait; staged,
// it takes 37 to 65 us with 64 KiB. Non-blocking NCCL starts a thread for each call: 60 to 150 us,
// where a ring takes 24 to 73 us, up to 4 MiB (NCCL 2.28.9, two H200s: docs/results/mpi.md).
constexpr uint64_t kBlockingNcclFrom = 64 << 10;
constexpr uint64_t kNcclFrom = 16 << 20;
constexpr uint64_t kNcclWithoutRingFrom = 256 << 10;
// The library's own Bcast is direct, and between two GPUs it is faster at any length (64 MiB: 212
// us, NCCL 240 us). With more GPUs it forwards data only when all have arrived, and NCCL earlier:
// not measured yet.
constexpr uint64_t kNcclBcastFrom = 16 << 20;
constexpr int kNcclBcastFromRanks = 3;

enum class Algorithm {
    none,
    allgather,
    allreduce,
    alltoall,
    bcast,
    reduce,
    reduce_scatter,
    reduce_scatter_block,
};

using NamedAlgorithm = std::pair<std::string_view, Algorithm>;
constexpr NamedAlgorithm kAlgorithms[] = {
    {"Allgather", Algorithm::allgather},
    {"Allreduce", Algorithm::allreduce},
    {"Alltoall", Algorithm::alltoall},
    {"Bcast", Algorithm::bcast},
    {"Reduce", Algorithm::reduce},
    {"Reduce_scatter", Algorithm::reduce_scatter},
    {"Reduce_scatter_block", Algorithm::reduce_scatter_block},
};

Algorithm algorithm_of(const Call& call)
{
    if (call.kind != Kind::collective || call.form != Form::blocking) {
        return Algorithm::none;
    }
    std::string_view name = call.name;
    if (call.large) {
        name.remove_suffix(std::string_view("_c").size());
    }
    const auto* found = std::ranges::find(kAlgorithms, name, &NamedAlgorithm::first);
    return found == std::end(kAlgorithms) ? Algorithm::none : found->second;
}

// NCCL's kernels wait for those of other ranks. If several threads of a process ran them for
// different communicators, they could deadlock. So only one thread does at a time; all ranks make
// another thread's call without NCCL.
std::mutex& nccl_turn()
{
    static auto& mutex = *new std::mutex;
    return mutex;
}

// One call on one rank.
class Collective {
  public:
    Collective(const Arguments& arguments, Algorithm algorithm, int ranks)
        : arguments_(arguments), library_(arguments.library()), call_(arguments.call()),
          algorithm_(algorithm), ranks_(ranks)
    {
    }

    // Whether to find out which means the ranks have. Depends only on what is the same on all
    // ranks.
    bool eligible()
    {
        const Side& side = call_.receive;
        if (arguments_.type(side, 0) == library_.datatype_null) {
            return false;
        }
        int64_t size = 0; // ranks may describe the same bytes by one long element or by many short
                          // ones
        library_.Type_size_c(arguments_.type(side, 0), &size);
        if (size <= 0) {
            return false;
        }
        intptr_t lower = 0, extent = 0;
        library_.Type_get_extent(arguments_.type(side, 0), &lower, &extent);
        element_ = static_cast<uint64_t>(extent);
        if (call_.op >= 0) {
            reduction_ = predefined_reduction(library_, arguments_.handle(call_.op),
                                              arguments_.type(side, 0));
            if (!reduction_) {
                return false;
            }
        } else {
            element_ = static_cast<uint64_t>(size);
        }
        return divide() && large_for_nccl(kBlockingNcclFrom); // the lowest of all limits
    }

    // Which means may make an eligible call. Depends only on what is the same on all ranks. Without
    // NCCL the library makes a Bcast.
    bool for_ring() const
    {
        return algorithm_ != Algorithm::bcast && blocks_.all() >= kRingFrom &&
               blocks_.all() / ranks_ >= kRingFromBlock;
    }
    bool for_nccl(const Means& means) const
    {
        const bool ring = means.ring() && for_ring();
        return (!reduction_ || nccl_reduction(*reduction_)) &&
               large_for_nccl(means.nccl_blocks() ? kBlockingNcclFrom
                              : ring              ? kNcclFrom
                                                  : kNcclWithoutRingFrom);
    }

    // Whether this rank's GPU can access its buffers. Throws cuda::Error, std::bad_alloc.
    bool locate(const cuda::Driver& driver, const Team& team)
    {
        const int root = call_.root < 0 ? team.rank() : arguments_.integer(call_.root);
        at_root_ = root == team.rank() || algorithm_ == Algorithm::bcast; // this rank has a result
        in_place_ = arguments_.in_place(call_.send);
        const uint64_t own = blocks_.length(team.rank());
        if (algorithm_ == Algorithm::allgather) {
            use(driver, call_.send, in_place_ ? 0 : own);
        } else {
            use(driver, call_.send, in_place_ ? 0 : blocks_.all());
        }
        if (at_root_) {
            use(driver, call_.receive, scatters() && !in_place_ ? own : blocks_.all());
        }
        if (!possible_ || !memory_) {
            return false;
        }
        driver_ = &driver;
        stream_.emplace(driver, memory_->device);
        return true;
    }

    // To be called after locate(): whether this rank can take part. Throw cuda::Error,
    // std::bad_alloc, MpiError.
    bool prepare_for_ring()
    {
        if (turn_.owns_lock()) {
            turn_.unlock();
        }
        if (reduction_) {
            kernel_ = GpuKernels::of(*driver_, *stream_)
                          .reduction(reduction_->operation, reduction_->type);
            if (kernel_ == nullptr) {
                return false;
            }
            scratch(Ring::scratch_for(blocks_));
        } else if (algorithm_ == Algorithm::alltoall && in_place_) {
            scratch(blocks_.all());
        }
        return true;
    }
    bool prepare_for_nccl(Means& means)
    {
        if (!means.nccl_serves(*stream_) || !turn_.try_lock()) {
            return false;
        }
        if (in_place_ && scatters()) {
            scratch(blocks_.length(means.team().rank()));
        } else if (in_place_ && algorithm_ == Algorithm::alltoall) {
            scratch(blocks_.all());
        }
        return true;
    }

    // To be called if all ranks are prepared. Throw MpiError, cuda::Error, nccl::Error.
    void run(const Team& team)
    {
        const Ring ring(team, *stream_);
        try {
            if (kernel_ != nullptr) {
                reduce(ring, team, in(), out());
            } else {
                exchange(ring, team, in(), out());
            }
        } catch (...) {
            stream_->settle();
            scratch_.forget(); // pending messages still use it
            throw;
        }
        count();
    }
    // False, on all ranks: NCCL cannot make the call.
    bool run(Means& means)
    {
        NcclCommunicator* nccl = means.communicator(*driver_, *stream_);
        if (nccl == nullptr) {
            return false;
        }
        if (reduction_) {
            reduce(*nccl, means.team(), *nccl_reduction(*reduction_), in(), out());
        } else {
            exchange(*nccl, means.team(), in(), out());
        }
        count();
        return true;
    }

  private:
    bool large_for_nccl(uint64_t from) const
    {
        if (algorithm_ == Algorithm::bcast) {
            return ranks_ >= kNcclBcastFromRanks && blocks_.all() >= kNcclBcastFrom;
        }
        return blocks_.all() >= from;
    }

    bool scatters() const
    {
        return algorithm_ == Algorithm::reduce_scatter ||
               algorithm_ == Algorithm::reduce_scatter_block;
    }

    char* pointer(const Side& side) const
    {
        return static_cast<char*>(arguments_.pointer(side.buffer));
    }

    const char* in() const { return pointer(in_place_ ? call_.receive : call_.send); }
    char* out() const { return at_root_ ? pointer(call_.receive) : nullptr; }

    void scratch(uint64_t bytes)
    {
        if (bytes > scratch_bytes_) {
            scratch_ = DeviceScratch(*driver_, *stream_, bytes);
        }
        scratch_bytes_ = std::max(scratch_bytes_, bytes);
    }

    void count() const { stats::statistics().add({.mpi_gpu_bytes = blocks_.all()}); }

    // Divides the elements into a block for each rank. False: MPI will reject an argument.
    bool divide()
    {
        if (call_.root >= 0 &&
            (arguments_.integer(call_.root) < 0 || arguments_.integer(call_.root) >= ranks_)) {
            return false;
        }
        const bool in_parts = algorithm_ == Algorithm::allreduce ||
                              algorithm_ == Algorithm::bcast || algorithm_ == Algorithm::reduce;
        for (int rank = 0; rank < ranks_; ++rank) {
            int64_t count = arguments_.count(call_.receive, call_.receive.counts ? rank : 0);
            if (count < 0) {
                return false;
            }
            if (in_parts) {
                count = count / ranks_ + (rank < count % ranks_ ? 1 : 0);
            }
            blocks_.add(static_cast<uint64_t>(count) * element_);
        }
        return true;
    }

    // Checks a buffer that this rank has: it must be contiguous, and on the same GPU as the others.
    void use(const cuda::Driver& driver, const Side& side, uint64_t bytes)
    {
        if (bytes == 0 || !possible_) {
            return;
        }
        possible_ = false;
        if (call_.op < 0) {
            Footprint footprint;
            footprint.add(library_, arguments_.type(side, 0), 1, 0);
            const Elements* one = footprint.parts().empty() ? nullptr : &footprint.parts().front();
            if (one == nullptr || one->runs.front().offset != 0 ||
                !(Elements{one->runs, 2, one->extent}.in_one_piece())) {
                return;
            }
        }
        const auto memory = find_device_memory(driver, pointer(side));
        if (!memory || (memory_ && memory_->device != memory->device)) {
            return;
        }
        const ThreadStream stream(driver, memory->device);
        const auto begin = reinterpret_cast<uintptr_t>(pointer(side));
        possible_ = GpuKernels::reach(stream, *memory, begin, begin + bytes);
        memory_ = memory;
    }

    void reduce(const Ring& ring, const Team& team, const char* in, char* out)
    {
        const uint64_t begin = blocks_.begin(team.rank());
        // Where the last step receives. The result may go elsewhere later.
        char* const own = scratch_.data() + (ranks_ % 2) * blocks_.longest();
        char* const result =
            algorithm_ == Algorithm::allreduce || (algorithm_ == Algorithm::reduce && at_root_)
                ? out + begin
            : scatters() && !in_place_ ? out
                                       : own;
        ring.reduce_scatter(*kernel_, element_, blocks_, in, result, scratch_.data());
        if (algorithm_ == Algorithm::allreduce) {
            ring.allgather(blocks_, out);
        } else if (algorithm_ == Algorithm::reduce) {
            ring.gather(blocks_, arguments_.integer(call_.root), result, out);
        } else if (result == own) {
            stream_->copy(out, result, blocks_.length(team.rank()));
        }
    }

    void exchange(const Ring& ring, const Team& team, const char* in, char* out)
    {
        if (algorithm_ == Algorithm::allgather) {
            if (!in_place_) {
                stream_->copy(out + blocks_.begin(team.rank()), in, blocks_.length(team.rank()));
            }
            ring.allgather(blocks_, out);
            return;
        }
        if (in_place_) {
            stream_->copy(scratch_.data(), in, blocks_.all());
            in = scratch_.data();
        }
        ring.alltoall(blocks_.length(0), in, out);
    }

    void reduce(NcclCommunicator& nccl, const Team& team, NcclReduction reduction, const char* in,
                char* out)
    {
        if (algorithm_ == Algorithm::allreduce) {
            nccl.allreduce(*stream_, reduction, in, out, blocks_.all(), element_);
        } else if (algorithm_ == Algorithm::reduce) {
            nccl.reduce(*stream_, reduction, in, out, blocks_.all(), element_,
                        arguments_.integer(call_.root));
        } else if (in_place_) { // the result overlaps other ranks' blocks
            nccl.reduce_scatter(*stream_, reduction, in, scratch_.data(), blocks_, element_);
            stream_->copy(out, scratch_.data(), blocks_.length(team.rank()));
        } else {
            nccl.reduce_scatter(*stream_, reduction, in, out, blocks_, element_);
        }
    }

    void exchange(NcclCommunicator& nccl, const Team& team, const char* in, char* out)
    {
        const uint64_t own = blocks_.length(team.rank());
        if (algorithm_ == Algorithm::bcast) {
            nccl.broadcast(*stream_, out, blocks_.all(), arguments_.integer(call_.root));
        } else if (algorithm_ == Algorithm::allgather) {
            nccl.allgather(*stream_, in_place_ ? out + blocks_.begin(team.rank()) : in, out, own);
        } else if (in_place_) {
            stream_->copy(scratch_.data(), in, blocks_.all());
            nccl.alltoall(*stream_, scratch_.data(), out, own);
        } else {
            nccl.alltoall(*stream_, in, out, own);
        }
    }

    const Arguments& arguments_;
    const Library& library_;
    const Call& call_;
    const Algorithm algorithm_;
    const int ranks_;
    uint64_t element_ = 0; // bytes
    BlocksOfRanks blocks_;
    std::optional<PredefinedReduction> reduction_;

    bool at_root_ = true;
    bool in_place_ = false;
    bool possible_ = true;
    std::optional<cuda::Pointer> memory_;
    const cuda::Driver* driver_ = nullptr;
    std::optional<ThreadStream> stream_;
    const kernels::Reduction* kernel_ = nullptr;
    DeviceScratch scratch_;
    uint64_t scratch_bytes_ = 0;
    std::unique_lock<std::mutex> turn_{nccl_turn(), std::defer_lock};
};

// prepare() may throw CUDA's errors.
template <class Prepare>
bool prepared(const char* call, Prepare prepare)
{
    try {
        return prepare();
    } catch (const MpiError&) {
        throw;
    } catch (const std::exception& error) {
        gdr_log(diag, "MPI_%s is not made by the GPUs: %s", call, error.what());
        return false;
    }
}

// False, on all ranks: the call is made like any other.
bool make(Collective& collective, Means& means, const char* call)
{
    const Team& team = means.team();
    const bool by_nccl = means.nccl() && collective.for_nccl(means);
    const bool by_ring = means.ring() && collective.for_ring();
    if (!by_nccl && !by_ring) {
        return false;
    }
    const cuda::Driver* driver = cuda::open_driver();
    const bool located =
        driver != nullptr && prepared(call, [&] { return collective.locate(*driver, team); });
    if (by_nccl &&
        team.all(located && prepared(call, [&] { return collective.prepare_for_nccl(means); })) &&
        collective.run(means)) {
        return true;
    }
    if (!by_ring ||
        !team.all(located && prepared(call, [&] { return collective.prepare_for_ring(); }))) {
        return false;
    }
    collective.run(team);
    return true;
}

// The number of ranks of an intra-communicator; 0 for others.
int ranks_of(const Library& library, Word comm)
{
    int inter = 0, ranks = 0;
    if (library.Comm_test_inter(comm, &inter) != 0 || inter != 0 ||
        library.Comm_size(comm, &ranks) != 0) {
        return 0;
    }
    return ranks;
}

} // namespace

std::optional<int> call_on_gpus(const Library& library, const Call& call, Word* words,
                                bool with_nccl)
{
    const Algorithm algorithm = algorithm_of(call);
    if (algorithm == Algorithm::none) {
        return std::nullopt;
    }
    const Arguments arguments(library, call, words);
    if (arguments.no_comm()) {
        return std::nullopt;
    }
    const Word comm = arguments.handle(call.comm);
    const int ranks = ranks_of(library, comm);
    if (ranks < 2) {
        return std::nullopt;
    }
    try {
        Collective collective(arguments, algorithm, ranks); // ends before a handler is called
        if (!collective.eligible() ||
            !make(collective, Means::of(library, comm, with_nccl), call.name)) {
            return std::nullopt;
        }
    } catch (const MpiError& error) {
        library.Comm_call_errhandler(comm, error.code());
        return error.code();
    } catch (const std::exception& error) {
        gdr_log(error, "MPI_%s failed on a GPU: %s", call.name, error.what());
        library.Comm_call_errhandler(comm, library.abi->error_other);
        return library.abi->error_other;
    }
    return 0;
}

} // namespace gdr::mpi
