// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Whether a buffer is on a GPU is known to its rank alone: so ranks vote, in each call that is
// large enough.
#include "mpi/collectives/gpu_collectives.hpp"

#include "abi/host.hpp"
#include "mpi/collectives/predefined_reductions.hpp"
#include "mpi/collectives/ring.hpp"
#include "mpi/collectives/team.hpp"
#include "mpi/gpu/device_memory.hpp"
#include "mpi/gpu/device_scratch.hpp"
#include "mpi/gpu/gpu_kernels.hpp"
#include "mpi/library/arguments.hpp"
#include "mpi/library/transport.hpp"
#include "stats/statistics.hpp"

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>

namespace gdr::mpi {

namespace {

// Of all ranks together. A vote takes some microseconds, and so does each message: with less,
// staging is as fast.
constexpr uint64_t kFrom = 256 << 10;
constexpr uint64_t kFromBlock = 16 << 10; // of each rank

enum class Algorithm {
    none,
    allgather,
    allreduce,
    alltoall,
    reduce,
    reduce_scatter,
    reduce_scatter_block,
};

// Bcast is direct as it is.
using NamedAlgorithm = std::pair<std::string_view, Algorithm>;
constexpr NamedAlgorithm kAlgorithms[] = {
    {"Allgather", Algorithm::allgather},
    {"Allreduce", Algorithm::allreduce},
    {"Alltoall", Algorithm::alltoall},
    {"Reduce", Algorithm::reduce},
    {"Reduce_scatter", Algorithm::reduce_scatter},
    {"Reduce_scatter_block", Algorithm::reduce_scatter_block},
};

Algorithm algorithm_of(const Call& call)
{
    if (call.kind != Kind::collective || call.form != Form::blocking)
        return Algorithm::none;
    std::string_view name = call.name;
    if (call.large)
        name.remove_suffix(std::string_view("_c").size());
    const auto* found = std::ranges::find(kAlgorithms, name, &NamedAlgorithm::first);
    return found == std::end(kAlgorithms) ? Algorithm::none : found->second;
}

// One call on one rank.
class Collective {
  public:
    Collective(const Arguments& arguments, Algorithm algorithm, int ranks)
        : arguments_(arguments), library_(arguments.library()), call_(arguments.call()),
          algorithm_(algorithm), ranks_(ranks)
    {
    }

    // By what is the same on all ranks alone: whether they are to vote.
    bool eligible()
    {
        const Side& side = call_.receive;
        int size = 0;
        library_.Type_size(arguments_.type(side, 0), &size);
        if (size <= 0)
            return false;
        intptr_t lower = 0, extent = 0;
        library_.Type_get_extent(arguments_.type(side, 0), &lower, &extent);
        element_ = static_cast<uint64_t>(extent);
        if (call_.op >= 0) {
            reduction_ = predefined_reduction(library_, arguments_.handle(call_.op),
                                              arguments_.type(side, 0));
            if (!reduction_)
                return false;
        } else {
            element_ = static_cast<uint64_t>(size);
        }
        return divide() && blocks_.all() >= kFrom && blocks_.all() / ranks_ >= kFromBlock;
    }

    // Whether this rank's buffers, and its GPU, allow it. Throws cuda::Error, std::bad_alloc.
    bool prepare(const cuda::Driver& driver, const Team& team)
    {
        const int root = call_.root < 0 ? team.rank() : arguments_.integer(call_.root);
        at_root_ = root == team.rank();
        in_place_ = arguments_.in_place(call_.send);
        const uint64_t own = blocks_.length(team.rank());
        if (algorithm_ == Algorithm::allgather)
            use(driver, call_.send, in_place_ ? 0 : own);
        else
            use(driver, call_.send, in_place_ ? 0 : blocks_.all());
        if (at_root_)
            use(driver, call_.receive, scatters() && !in_place_ ? own : blocks_.all());
        if (!possible_ || !memory_)
            return false;
        driver_ = &driver;
        stream_.emplace(driver, memory_->device);
        uint64_t scratch = 0;
        if (reduction_) {
            kernel_ =
                GpuKernels::of(driver, *stream_).reduction(reduction_->operation, reduction_->type);
            if (kernel_ == nullptr)
                return false;
            scratch = Ring::scratch_for(blocks_);
        } else if (algorithm_ == Algorithm::alltoall && in_place_) {
            scratch = blocks_.all();
        }
        if (scratch > 0)
            scratch_ = DeviceScratch(driver, *stream_, scratch);
        return true;
    }

    // After prepare(), if all ranks could. Throws MpiError, cuda::Error.
    void run(const Team& team)
    {
        const Ring ring(team, *driver_, *stream_);
        const char* const in = pointer(in_place_ ? call_.receive : call_.send);
        char* const out = at_root_ ? pointer(call_.receive) : nullptr;
        try {
            if (kernel_ != nullptr)
                reduce(ring, team, in, out);
            else
                exchange(ring, team, in, out);
        } catch (...) {
            stream_->settle();
            scratch_.forget(); // messages under way still use it
            throw;
        }
        stats::statistics().add({.mpi_gpu_bytes = blocks_.all()});
    }

  private:
    bool scatters() const
    {
        return algorithm_ == Algorithm::reduce_scatter ||
               algorithm_ == Algorithm::reduce_scatter_block;
    }

    char* pointer(const Side& side) const
    {
        return static_cast<char*>(arguments_.pointer(side.buffer));
    }

    // Elements of each rank's block. False: an argument that MPI is to complain about.
    bool divide()
    {
        if (call_.root >= 0 &&
            (arguments_.integer(call_.root) < 0 || arguments_.integer(call_.root) >= ranks_))
            return false;
        const bool in_parts = algorithm_ == Algorithm::allreduce || algorithm_ == Algorithm::reduce;
        for (int rank = 0; rank < ranks_; ++rank) {
            int64_t count = arguments_.count(call_.receive, call_.receive.counts ? rank : 0);
            if (count < 0)
                return false;
            if (in_parts)
                count = count / ranks_ + (rank < count % ranks_ ? 1 : 0);
            blocks_.add(static_cast<uint64_t>(count) * element_);
        }
        return true;
    }

    // A buffer that this rank has: on the GPU of the others, in one piece.
    void use(const cuda::Driver& driver, const Side& side, uint64_t bytes)
    {
        if (bytes == 0 || !possible_)
            return;
        possible_ = false;
        if (call_.op < 0) {
            Footprint footprint;
            footprint.add(library_, arguments_.type(side, 0), 1, 0);
            const Elements* one = footprint.parts().empty() ? nullptr : &footprint.parts().front();
            if (one == nullptr || !footprint.exact() || one->runs.front().offset != 0 ||
                !(Elements{one->runs, 2, one->extent}.in_one_piece()))
                return;
        }
        const auto memory = find_device_memory(driver, pointer(side));
        if (!memory || (memory_ && memory_->device != memory->device))
            return;
        const ThreadStream stream(driver, memory->device);
        const auto begin = reinterpret_cast<uintptr_t>(pointer(side));
        possible_ = GpuKernels::reach(stream, *memory, begin, begin + bytes);
        memory_ = memory;
    }

    void reduce(const Ring& ring, const Team& team, const char* in, char* out)
    {
        const uint64_t begin = blocks_.begin(team.rank());
        // Where the last step receives: a result that goes elsewhere later.
        char* const own = scratch_.data() + (ranks_ % 2) * blocks_.longest();
        char* const result =
            algorithm_ == Algorithm::allreduce || (algorithm_ == Algorithm::reduce && at_root_)
                ? out + begin
            : scatters() && !in_place_ ? out
                                       : own;
        ring.reduce_scatter(*kernel_, element_, blocks_, in, result, scratch_.data());
        if (algorithm_ == Algorithm::allreduce)
            ring.allgather(blocks_, out);
        else if (algorithm_ == Algorithm::reduce)
            ring.gather(blocks_, arguments_.integer(call_.root), result, out);
        else if (result == own)
            ring.copy(out, result, blocks_.length(team.rank()));
    }

    void exchange(const Ring& ring, const Team& team, const char* in, char* out)
    {
        if (algorithm_ == Algorithm::allgather) {
            if (!in_place_)
                ring.copy(out + blocks_.begin(team.rank()), in, blocks_.length(team.rank()));
            ring.allgather(blocks_, out);
            return;
        }
        if (in_place_) {
            ring.copy(scratch_.data(), in, blocks_.all());
            in = scratch_.data();
        }
        ring.alltoall(blocks_.length(0), in, out);
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
};

bool prepared(Collective& collective, const Team& team, const char* call)
{
    const cuda::Driver* driver = cuda::loaded_driver();
    try {
        return driver != nullptr && collective.prepare(*driver, team);
    } catch (const std::exception& error) {
        gdr_log(diag, "MPI_%s is not made by the GPUs: %s", call, error.what());
        return false;
    }
}

// The number of ranks of an intra-communicator; 0 for others.
int ranks_of(const Library& library, Word comm)
{
    int inter = 0, ranks = 0;
    if (library.Comm_test_inter(comm, &inter) != 0 || inter != 0 ||
        library.Comm_size(comm, &ranks) != 0)
        return 0;
    return ranks;
}

} // namespace

std::optional<int> call_on_gpus(const Library& library, const Call& call, Word* words)
{
    const Algorithm algorithm = algorithm_of(call);
    if (algorithm == Algorithm::none)
        return std::nullopt;
    const Arguments arguments(library, call, words);
    const Word comm = arguments.handle(call.comm);
    const int ranks = ranks_of(library, comm);
    if (ranks < 2)
        return std::nullopt;
    Collective collective(arguments, algorithm, ranks);
    if (!collective.eligible())
        return std::nullopt;
    try {
        const Team& team =
            Team::of(library, comm,
                     cuda::loaded_driver() != nullptr && kernels::built() && hands_to_ucx(library));
        if (!team.able() || !team.all(prepared(collective, team, call.name)))
            return std::nullopt;
        collective.run(team);
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
