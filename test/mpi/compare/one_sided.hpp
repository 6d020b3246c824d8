// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// One-sided calls, with types that have gaps, under each kind of synchronisation.
#pragma once

#include "trial.hpp"

namespace compare {

inline void one_sided(Trial& trial)
{
    constexpr int kCount = 1000, kBytes = 16000;
    char* const target = trial.buffer(kBytes, Trial::Where::host);
    MPI_Win window;
    MPI_Win_create(target, kBytes, sizeof(int), MPI_INFO_NULL, world, &window);
    const auto buffer = [&] { return trial.buffer(9000); };
    const Type type = vector(kCount, 1, 2);
    char *const out = buffer(), *const in = buffer(), *const results = buffer();
    MPI_Win_fence(0, window);
    MPI_Put(out, 1, type, next(), 0, 1, type, window);
    MPI_Win_fence(0, window);
    MPI_Get(in, 1, type, next(), 1, 1, type, window);
    MPI_Get(in + sizeof(int), 1, type, next(), 0, 1, type, window);
    MPI_Win_fence(0, window);
    MPI_Accumulate(out, kCount, MPI_INT, next(), 0, 1, type, MPI_SUM, window);
    MPI_Win_fence(0, window);
    MPI_Get_accumulate(out, 1, type, results, 1, type, next(), 0, kCount, MPI_INT, MPI_MAX, window);
    MPI_Win_fence(0, window);
    MPI_Get_accumulate(nullptr, 0, MPI_INT, buffer(), kCount, MPI_INT, next(), 0, kCount, MPI_INT,
                       MPI_NO_OP, window);
    MPI_Win_fence(0, window);

    MPI_Win_lock_all(0, window);
    MPI_Request request;
    MPI_Rget(buffer(), 1, type, next(), 0, kCount, MPI_INT, window, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_flush_all(window);
    MPI_Win_unlock_all(window);
    MPI_Barrier(world);

    MPI_Group all, to, from;
    const int next_rank = next(), previous_rank = previous();
    MPI_Win_get_group(window, &all);
    MPI_Group_incl(all, 1, &next_rank, &to);
    MPI_Group_incl(all, 1, &previous_rank, &from);
    MPI_Win_post(from, 0, window);
    MPI_Win_start(to, 0, window);
    MPI_Get(buffer(), 1, type, next(), 0, kCount, MPI_INT, window);
    MPI_Win_complete(window);
    MPI_Win_wait(window);
    MPI_Group_free(&all);
    MPI_Group_free(&to);
    MPI_Group_free(&from);

    char *const value = buffer(), *const expected = buffer();
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Compare_and_swap(value, expected, buffer(), MPI_INT, 0, rank + 2000, window);
    MPI_Win_unlock(0, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

inline const Cases kOneSided = {{"one_sided", 2, one_sided}};

} // namespace compare
