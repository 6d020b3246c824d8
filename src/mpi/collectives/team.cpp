// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The communicator is split, not duplicated: MPI_Comm_dup would run the callbacks of the
// application's attributes.
#include "mpi/collectives/team.hpp"

#include "kernels/reduction.hpp"

namespace gdr::mpi {

namespace {

constexpr int kTag = 0;

} // namespace

Team::Team(const Library& library, Word comm) : library_(library)
{
    library.Comm_rank(comm, &rank_);
    library.Comm_size(comm, &size_);
    check_mpi(library.Comm_split(comm, 0, rank_, &comm_));
    check_mpi(library.Comm_set_errhandler(comm_, library.errors_return));
}

void Team::end()
{
    library_.Comm_free(&comm_);
}

bool Team::all(bool mine) const
{
    int word = mine ? 1 : 0;
    intersect({&word, 1});
    return word != 0;
}

void Team::intersect(std::span<int> words) const
{
    check_mpi(library_.Allreduce(reinterpret_cast<const void*>(library_.abi->in_place),
                                 words.data(), static_cast<int>(words.size()), library_.integer,
                                 library_.operations[static_cast<size_t>(kernels::Operation::band)],
                                 comm_));
}

void Team::gather(const void* mine, void* all, size_t bytes) const
{
    check_mpi(library_.Allgather(mine, static_cast<int>(bytes), library_.byte, all,
                                 static_cast<int>(bytes), library_.byte, comm_));
}

void Team::broadcast(void* data, size_t bytes) const
{
    check_mpi(library_.Bcast(data, static_cast<int>(bytes), library_.byte, 0, comm_));
}

Word Team::send(const void* from, size_t bytes, int to) const
{
    Word request = 0;
    check_mpi(
        library_.Isend(from, static_cast<int>(bytes), library_.byte, to, kTag, comm_, &request));
    return request;
}

Word Team::receive(void* to, size_t bytes, int from) const
{
    Word request = 0;
    check_mpi(
        library_.Irecv(to, static_cast<int>(bytes), library_.byte, from, kTag, comm_, &request));
    return request;
}

void Team::wait(Word request) const
{
    check_mpi(library_.Wait(&request, library_.abi->status_ignore));
}

void Team::wait(const std::vector<Word>& requests) const
{
    for (Word request : requests) {
        wait(request);
    }
}

} // namespace gdr::mpi
