// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A team is an attribute of the application's communicator. Its own is split off, not duplicated:
// that would run the callbacks of the application's attributes.
#include "mpi/collectives/team.hpp"

#include "kernels/reduction.hpp"

#include <memory>

namespace gdr::mpi {

namespace {

constexpr int kTag = 0;

int do_not_copy(Word, int, void*, void*, void*, int* copied)
{
    *copied = 0;
    return 0;
}

// The world's ends within MPI_Finalize, which frees what there is.
int forget(Word comm, int, void* team, void* library)
{
    std::unique_ptr<Team> ended(static_cast<Team*>(team));
    const auto& of = *static_cast<const Library*>(library);
    if (of.abi->handle(comm) != of.comm_world)
        ended->end();
    return 0;
}

int key(const Library& library)
{
    static const int keyval = [&] {
        int made = 0;
        check_mpi(
            library.Comm_create_keyval(do_not_copy, forget, &made, const_cast<Library*>(&library)));
        return made;
    }();
    return keyval;
}

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

Team& Team::of(const Library& library, Word comm, bool able)
{
    void* known = nullptr;
    int found = 0;
    check_mpi(library.Comm_get_attr(comm, key(library), &known, &found));
    if (found != 0)
        return *static_cast<Team*>(known);
    auto team = std::make_unique<Team>(library, comm);
    team->able_ = team->all(able);
    check_mpi(library.Comm_set_attr(comm, key(library), team.get()));
    return *team.release();
}

bool Team::all(bool mine) const
{
    const int in = mine ? 1 : 0;
    int out = 0;
    check_mpi(library_.Allreduce(&in, &out, 1, library_.integer,
                                 library_.operations[static_cast<size_t>(kernels::Operation::band)],
                                 comm_));
    return out != 0;
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
    for (Word request : requests)
        wait(request);
}

} // namespace gdr::mpi
