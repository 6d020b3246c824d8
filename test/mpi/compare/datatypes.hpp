// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Types of each constructor, and messages that lie in each other's gaps.
#pragma once

#include <algorithm>
#include <cstdlib>

#include "trial.hpp"

namespace compare {

inline Type subarray(int start, int order)
{
    const int whole[] = {6, 8, 10}, part[] = {2, 3, 4}, starts[] = {start, 1 + start, 2};
    MPI_Datatype made;
    MPI_Type_create_subarray(3, whole, part, starts, order, MPI_INT, &made);
    return Type(made);
}

// Every second integer.
inline Type dealt(int process, int count)
{
    const int distribution = MPI_DISTRIBUTE_CYCLIC, block = 1, processes = 2;
    MPI_Datatype made;
    MPI_Type_create_darray(2, process, 1, &count, &distribution, &block, &processes, MPI_ORDER_C,
                           MPI_INT, &made);
    return Type(made);
}

inline Type backwards(int count)
{
    return resized(vector(count, 2, -4), -8, count * 16 + 8);
}

inline Type structure_of_subarrays()
{
    const Type a = subarray(0, MPI_ORDER_C), b = subarray(1, MPI_ORDER_FORTRAN);
    const int lengths[] = {1, 2, 1, 0};
    const MPI_Aint places[] = {0, 4096, 20000, 9};
    const MPI_Datatype types[] = {a, b, MPI_SHORT, MPI_DOUBLE};
    MPI_Datatype made;
    MPI_Type_create_struct(4, lengths, places, types, &made);
    return Type(made);
}

inline Type blocks_anywhere()
{
    const int places[] = {0, 3, 9, 27, 40};
    MPI_Datatype made;
    MPI_Type_create_indexed_block(5, 2, places, MPI_INT, &made);
    return Type(made);
}

inline std::vector<Type> various_types()
{
    std::vector<Type> types;
    types.push_back(backwards(50));
    types.push_back(structure_of_subarrays());
    types.push_back(dealt(0, 3001));
    types.push_back(blocks_anywhere());
    types.push_back(subarray(1, MPI_ORDER_FORTRAN));
    types.push_back(vector(900, 3, 7));
    return types;
}

constexpr size_t kBefore = 4096; // room for negative displacements

inline size_t room(MPI_Datatype type, int count)
{
    MPI_Aint low, extent, true_low, true_extent;
    MPI_Type_get_extent(type, &low, &extent);
    MPI_Type_get_true_extent(type, &true_low, &true_extent);
    return 2 * kBefore + static_cast<size_t>(true_low + true_extent + std::labs(extent) * count);
}

inline void types_in_a_ring(Trial& trial)
{
    constexpr int kCount = 3;
    for (const Type& type : various_types()) {
        char* const out = trial.buffer(room(type, kCount)) + kBefore;
        char* const in = trial.buffer(room(type, kCount)) + kBefore;
        MPI_Status status;
        MPI_Sendrecv(out, kCount, type, next(), 3, in, kCount, type, previous(), 3, world, &status);
        trial.tell_elements(status, type);
    }
}

inline void persistent_requests_of_freed_types(Trial& trial)
{
    constexpr int kCount = 3;
    for (Type& type : various_types()) {
        char* const out = trial.buffer(room(type, kCount)) + kBefore;
        char* const in = trial.buffer(room(type, kCount)) + kBefore;
        MPI_Request requests[2];
        MPI_Recv_init(in, kCount, type, previous(), 3, world, &requests[0]);
        MPI_Send_init(out, kCount, type, next(), 3, world, &requests[1]);
        type.free();
        for (int i = 0; i < 2; ++i) {
            MPI_Startall(2, requests);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        }
        MPI_Request_free(&requests[0]);
        MPI_Request_free(&requests[1]);
    }
}

// Two messages of which each is in the gaps of the other, into one buffer at the same time.
inline void interleaved(Trial& trial, const Type& one, const Type& other, size_t distance,
                        int count)
{
    const size_t bytes = std::max(room(one, count), distance + room(other, 1));
    char *const out = trial.buffer(bytes), *const in = trial.buffer(bytes);
    if (rank == 0) {
        MPI_Send(out, count, one, 1, 0, world);
        MPI_Send(out + distance, 1, other, 1, 1, world);
    } else if (rank == 1) {
        MPI_Request requests[2];
        MPI_Irecv(in, count, one, 0, 0, world, &requests[0]);
        MPI_Irecv(in + distance, 1, other, 0, 1, world, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
}

inline void interleaved_large_vectors(Trial& trial)
{
#if MPI_VERSION >= 4 && !defined(OPEN_MPI)
    MPI_Datatype column;
    MPI_Type_vector_c(2000, 1, 2, MPI_INT, &column);
    const Type type(column);
    interleaved(trial, type, type, sizeof(int), 1);
#else
    (void)trial;
#endif
}

// What has a gap within, or after the last.
inline void interleaved_with_pairs(Trial& trial)
{
    MPI_Datatype pair;
    MPI_Type_dup(MPI_DOUBLE_INT, &pair);
    interleaved(trial, Type(pair), vector(100, 1, 4), 12, 100);
    MPI_Type_dup(MPI_SHORT_INT, &pair);
    interleaved(trial, Type(pair), vector(100, 1, 4, MPI_SHORT), 2, 100);
}

inline void displacements_before_the_buffer(Trial& trial)
{
    const int lengths[] = {10, 5, 7};
    const MPI_Aint places[] = {400, -80, 80};
    MPI_Datatype made;
    MPI_Type_create_hindexed(3, lengths, places, MPI_INT, &made);
    const Type type(made);
    char *const a = trial.buffer(4000) + 512, *const b = trial.buffer(4000) + 512;
    MPI_Sendrecv(a, 2, type, next(), 0, b, 2, type, previous(), 0, world, MPI_STATUS_IGNORE);
    MPI_Bcast(trial.buffer(4000) + 512, 2, type, 0, world);
    char* const all = trial.buffer(4000 * static_cast<size_t>(ranks)) + 512;
    MPI_Allgather(a, 1, type, all, 1, type, world);
}

// Columns of a matrix that are next to each other: the extent is shorter than the column.
inline void columns_side_by_side(Trial& trial)
{
    constexpr int kRows = 500;
    const size_t column = kRows * sizeof(int), all = column * static_cast<size_t>(ranks);
    const Type type = resized(vector(kRows, 1, ranks), 0, sizeof(int));
    char* const own = trial.buffer(column);
    MPI_Allgather(own, kRows, MPI_INT, trial.buffer(all), 1, type, world);
    MPI_Gather(own, kRows, MPI_INT, trial.buffer(all), 1, type, 0, world);
    char *const out = trial.buffer(all), *const in = trial.buffer(all);
    MPI_Alltoall(out, 1, type, in, 1, type, world);
    MPI_Request request;
    MPI_Iallgather(own, kRows, MPI_INT, trial.buffer(all), 1, type, world, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Sendrecv(out, ranks, type, next(), 0, in, ranks, type, previous(), 0, world,
                 MPI_STATUS_IGNORE);
}

inline void other_types_on_either_side(Trial& trial)
{
    constexpr size_t kBytes = 8000;
    const size_t all = kBytes * static_cast<size_t>(ranks);
    const Type type = resized(vector(1000, 1, 2), 0, kBytes);
    char* const own = trial.buffer(kBytes);
    MPI_Gather(own, 1000, MPI_INT, trial.buffer(all), 1, type, 0, world);
    MPI_Allgather(own, 1, type, trial.buffer(all), 1000, MPI_INT, world);
    char* const blocks = trial.buffer(all);
    MPI_Alltoall(blocks, 1, type, trial.buffer(all), 1000, MPI_INT, world);
    MPI_Scatter(blocks, 1, type, trial.buffer(kBytes), 1000, MPI_INT, ranks - 1, world);
    // One integer a hundred times.
    const Type still = resized(MPI_INT, 0, 0);
    if (rank == 0) {
        MPI_Send(own, 100, still, 1, 0, world);
    } else if (rank == 1) {
        MPI_Recv(trial.buffer(400), 100, MPI_INT, 0, 0, world, MPI_STATUS_IGNORE);
    }
}

inline void fortran_types(Trial& trial)
{
    MPI_Datatype real, integer;
    MPI_Type_create_f90_real(12, MPI_UNDEFINED, &real);
    MPI_Type_create_f90_integer(8, &integer);
    char *const a = trial.buffer(8000), *const b = trial.buffer(8000);
    MPI_Allreduce(a, b, 500, integer, MPI_BXOR, world);
    MPI_Sendrecv(a, 100, real, next(), 0, b, 100, real, previous(), 0, world, MPI_STATUS_IGNORE);
}

inline const Cases kDatatypes = {
    {"types_in_a_ring", 1, types_in_a_ring},
    {"persistent_requests_of_freed_types", 1, persistent_requests_of_freed_types},
    {"interleaved_darrays", 2,
     [](Trial& trial) { interleaved(trial, dealt(0, 4000), dealt(1, 4000), 0, 1); }},
    {"interleaved_vectors", 2,
     [](Trial& trial) {
         interleaved(trial, vector(2000, 1, 2), vector(2000, 1, 2), sizeof(int), 1);
     }},
    {"interleaved_large_vectors", 2, interleaved_large_vectors},
    {"interleaved_with_pairs", 2, interleaved_with_pairs},
    {"displacements_before_the_buffer", 1, displacements_before_the_buffer},
    {"columns_side_by_side", 1, columns_side_by_side},
    {"other_types_on_either_side", 2, other_types_on_either_side},
    {"fortran_types", 1, fortran_types},
};

} // namespace compare
