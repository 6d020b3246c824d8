// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What one call finds in several memories, and what is far apart in one.
#pragma once

#include "trial.hpp"

namespace compare {

// Integers of several buffers, from MPI_BOTTOM.
inline Type absolute(const std::vector<char*>& buffers, const std::vector<int>& counts)
{
    std::vector<MPI_Aint> places(buffers.size());
    for (size_t i = 0; i < buffers.size(); ++i) {
        MPI_Get_address(buffers[i], &places[i]);
    }
    MPI_Datatype made;
    MPI_Type_create_hindexed(static_cast<int>(buffers.size()), counts.data(), places.data(),
                             MPI_INT, &made);
    return Type(made);
}

// Two buffers anywhere and one in host memory, of 2800 integers in all, with gaps in between.
inline Type scattered(Trial& trial)
{
    char* const a = trial.buffer(8000, Trial::Where::gpu);
    char* const b = trial.buffer(4000, Trial::Where::host);
    return absolute({a, b, trial.buffer(8000), a + 6000}, {1000, 300, 1200, 300});
}

constexpr int kScattered = 2800;

inline void several_memories_in_messages(Trial& trial)
{
    const Type out = scattered(trial), in = scattered(trial);
    MPI_Status status;
    MPI_Sendrecv(MPI_BOTTOM, 1, out, next(), 0, MPI_BOTTOM, 1, in, previous(), 0, world, &status);
    trial.tell_elements(status, in);
    // Less than was asked for, from another type.
    char* const plain = trial.buffer(kScattered * sizeof(int));
    MPI_Sendrecv(plain, 2000, MPI_INT, next(), 0, MPI_BOTTOM, 1, in, previous(), 0, world, &status);
    trial.tell_elements(status, in);
    MPI_Request requests[2];
    MPI_Recv_init(plain, kScattered, MPI_INT, previous(), 1, world, &requests[0]);
    MPI_Ssend_init(MPI_BOTTOM, 1, out, next(), 1, world, &requests[1]);
    for (int i = 0; i < 2; ++i) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

inline void several_memories_in_collectives(Trial& trial)
{
    const Type own = scattered(trial), other = scattered(trial);
    const size_t all = kScattered * sizeof(int) * static_cast<size_t>(ranks);
    MPI_Bcast(MPI_BOTTOM, 1, own, 0, world);
    MPI_Allgather(MPI_BOTTOM, 1, own, trial.buffer(all), kScattered, MPI_INT, world);
    MPI_Scatter(trial.buffer(all), kScattered, MPI_INT, MPI_BOTTOM, 1, other, ranks - 1, world);
    MPI_Request request;
    MPI_Igather(MPI_BOTTOM, 1, other, trial.buffer(all), kScattered, MPI_INT, 0, world, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

inline void several_memories_in_blocks(Trial& trial)
{
    constexpr int kCount = 1000;
    std::vector<Type> out, in;
    for (int i = 0; i < ranks; ++i) {
        out.push_back(absolute({trial.buffer(kCount * sizeof(int))}, {kCount}));
        in.push_back(absolute({trial.buffer(kCount * sizeof(int))}, {kCount}));
    }
    const std::vector<MPI_Datatype> from(out.begin(), out.end()), to(in.begin(), in.end());
    const std::vector<int> ones(from.size(), 1), zeros(from.size(), 0);
    MPI_Alltoallw(MPI_BOTTOM, ones.data(), zeros.data(), from.data(), MPI_BOTTOM, ones.data(),
                  zeros.data(), to.data(), world);
    MPI_Request request;
    MPI_Ialltoallw(MPI_BOTTOM, ones.data(), zeros.data(), to.data(), MPI_BOTTOM, ones.data(),
                   zeros.data(), from.data(), world, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

inline void several_memories_at_the_origin(Trial& trial)
{
    char* const window_memory = trial.buffer(kScattered * sizeof(int), Trial::Where::host);
    MPI_Win window;
    MPI_Win_create(window_memory, kScattered * sizeof(int), sizeof(int), MPI_INFO_NULL, world,
                   &window);
    const Type out = scattered(trial), in = scattered(trial);
    MPI_Win_fence(0, window);
    MPI_Put(MPI_BOTTOM, 1, out, next(), 0, kScattered, MPI_INT, window);
    MPI_Win_fence(0, window);
    MPI_Get(MPI_BOTTOM, 1, in, next(), 0, kScattered, MPI_INT, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

// What computes takes one memory, and does nothing to several.
inline void several_memories_in_a_reduction(Trial& trial)
{
    std::vector<char*> buffers = {trial.buffer(4000, Trial::Where::gpu),
                                  trial.buffer(4000, Trial::Where::host)};
    const bool several = trial.places().back() != trial.places()[trial.places().size() - 2];
    const Type type = absolute(buffers, {1000, 1000});
    const Type same = absolute({buffers[0], buffers[0] + 2000}, {400, 400});
    MPI_Op op;
    MPI_Op_create([](void*, void*, int*, MPI_Datatype*) {}, 1, &op);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Errhandler handler;
    MPI_Comm_get_errhandler(world, &handler);
    const int refused = MPI_Reduce_local(trial.buffer(8000), MPI_BOTTOM, 1, type, op);
    int error;
    MPI_Error_class(refused, &error);
    trial.tell(error == (several ? MPI_ERR_OTHER : MPI_SUCCESS));
    trial.tell(MPI_Reduce_local(trial.buffer(8000), MPI_BOTTOM, 1, same, op));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Errhandler_free(&handler);
    MPI_Op_free(&op);
}

inline void far_apart(Trial& trial)
{
    constexpr int kDistance = 5000, kCount = 100;
    std::vector<int> counts, places;
    for (int i = 0; i < ranks; ++i) {
        counts.push_back(kCount - i);
        places.push_back((ranks - 1 - i) * kDistance);
    }
    const size_t bytes = sizeof(int) * kDistance * static_cast<size_t>(ranks);
    const std::vector<int> own(counts.size(), kCount - rank);
    char* const out = trial.buffer(bytes);
    MPI_Alltoallv(out, counts.data(), places.data(), MPI_INT, trial.buffer(bytes), own.data(),
                  places.data(), MPI_INT, world);
    MPI_Request request;
    MPI_Iallgatherv(out, counts[static_cast<size_t>(rank)], MPI_INT, trial.buffer(bytes),
                    counts.data(), places.data(), MPI_INT, world, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_INT, trial.buffer(bytes), counts.data(), places.data(),
                   MPI_INT, world);
    MPI_Scatterv(trial.buffer(bytes), counts.data(), places.data(), MPI_INT,
                 trial.buffer(kCount * sizeof(int)), counts[static_cast<size_t>(rank)], MPI_INT, 0,
                 world);
}

inline const Cases kMemories = {
    {"several_memories_in_messages", 2, several_memories_in_messages},
    {"several_memories_in_collectives", 1, several_memories_in_collectives},
    {"several_memories_in_blocks", 1, several_memories_in_blocks},
    {"several_memories_at_the_origin", 2, several_memories_at_the_origin},
    {"several_memories_in_a_reduction", 1, several_memories_in_a_reduction},
    {"far_apart", 1, far_apart},
};

} // namespace compare
