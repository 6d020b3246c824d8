// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Collective calls: of nothing, in place, with operations of the user's, among neighbours.
#pragma once

#include "trial.hpp"

namespace compare {

inline void of_nothing(Trial& trial)
{
    char *const a = trial.buffer(64, Trial::Where::gpu), *const b =
                                                             trial.buffer(64, Trial::Where::gpu);
    const std::vector<int> z(static_cast<size_t>(ranks), 0);
    MPI_Bcast(a, 0, MPI_INT, 0, world);
    MPI_Allreduce(a, b, 0, MPI_INT, MPI_SUM, world);
    MPI_Reduce(a, b, 0, MPI_INT, MPI_SUM, 0, world);
    MPI_Gather(a, 0, MPI_INT, b, 0, MPI_INT, 0, world);
    MPI_Allgather(a, 0, MPI_INT, b, 0, MPI_INT, world);
    MPI_Alltoall(a, 0, MPI_INT, b, 0, MPI_INT, world);
    MPI_Alltoallv(a, z.data(), z.data(), MPI_INT, b, z.data(), z.data(), MPI_INT, world);
    MPI_Gatherv(a, 0, MPI_INT, b, z.data(), z.data(), MPI_INT, 0, world);
    MPI_Scatterv(a, z.data(), z.data(), MPI_INT, b, 0, MPI_INT, 0, world);
    MPI_Reduce_scatter(a, b, z.data(), MPI_INT, MPI_SUM, world);
    MPI_Reduce_scatter_block(a, b, 0, MPI_INT, MPI_SUM, world);
    MPI_Scan(a, b, 0, MPI_INT, MPI_SUM, world);
    MPI_Sendrecv(a, 0, MPI_INT, next(), 0, b, 0, MPI_INT, previous(), 0, world, MPI_STATUS_IGNORE);
    MPI_Sendrecv(nullptr, 0, MPI_INT, next(), 0, b, 10, MPI_INT, previous(), 0, world,
                 MPI_STATUS_IGNORE);
    MPI_Datatype made;
    MPI_Type_contiguous(0, MPI_INT, &made);
    const Type nothing(made);
    MPI_Sendrecv(a, 3, nothing, next(), 0, b, 3, nothing, previous(), 0, world, MPI_STATUS_IGNORE);
    MPI_Bcast(a, 4, nothing, 0, world);
    MPI_Reduce_local(a, b, 0, MPI_INT, MPI_SUM);
}

inline void some_of_nothing(Trial& trial)
{
    std::vector<int> counts, places;
    int all = 0;
    for (int i = 0; i < ranks; ++i) {
        counts.push_back(i % 2 == 0 ? 0 : 700);
        places.push_back(all);
        all += counts.back();
    }
    const int own = counts[static_cast<size_t>(rank)];
    char* const out = trial.buffer(2800);
    MPI_Allgatherv(own == 0 ? nullptr : out, own, MPI_INT,
                   trial.buffer(sizeof(int) * static_cast<size_t>(all + 1)), counts.data(),
                   places.data(), MPI_INT, world);
}

inline void in_place(Trial& trial)
{
    constexpr int n = 3000;
    const int root = ranks - 1;
    std::vector<int> counts, places, addresses;
    for (int i = 0; i < ranks; ++i) {
        counts.push_back(n);
        places.push_back(i * n);
        addresses.push_back(i * n * static_cast<int>(sizeof(int)));
    }
    const std::vector<MPI_Datatype> types(counts.size(), MPI_INT);
    const auto buffer = [&] { return trial.buffer(sizeof(int) * n * counts.size()); };
    const int *const c = counts.data(), *const d = places.data();
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, buffer(), n, MPI_INT, world);
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer(), c, d, MPI_INT, world);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, buffer(), n, MPI_INT, world);
    MPI_Alltoallv(MPI_IN_PLACE, nullptr, nullptr, MPI_INT, buffer(), c, d, MPI_INT, world);
    MPI_Alltoallw(MPI_IN_PLACE, nullptr, nullptr, nullptr, buffer(), c, addresses.data(),
                  types.data(), world);
    if (rank == root) {
        MPI_Gather(MPI_IN_PLACE, 0, MPI_INT, buffer(), n, MPI_INT, root, world);
        MPI_Gatherv(MPI_IN_PLACE, 0, MPI_INT, buffer(), c, d, MPI_INT, root, world);
        MPI_Scatter(buffer(), n, MPI_INT, MPI_IN_PLACE, 0, MPI_INT, root, world);
        MPI_Scatterv(buffer(), c, d, MPI_INT, MPI_IN_PLACE, 0, MPI_INT, root, world);
    } else {
        MPI_Gather(buffer(), n, MPI_INT, nullptr, 0, MPI_INT, root, world);
        MPI_Gatherv(buffer(), n, MPI_INT, nullptr, nullptr, nullptr, MPI_INT, root, world);
        MPI_Scatter(nullptr, 0, MPI_INT, buffer(), n, MPI_INT, root, world);
        MPI_Scatterv(nullptr, nullptr, nullptr, MPI_INT, buffer(), n, MPI_INT, root, world);
    }
    // Of rank 0: MPICH 4.0.2 dies of another root.
    char* const reduced = buffer();
    MPI_Reduce(rank == 0 ? MPI_IN_PLACE : reduced, rank == 0 ? reduced : nullptr, n, MPI_INT,
               MPI_BXOR, 0, world);
    MPI_Allreduce(MPI_IN_PLACE, buffer(), n, MPI_INT, MPI_MAX, world);
    MPI_Scan(MPI_IN_PLACE, buffer(), n, MPI_INT, MPI_BXOR, world);
    MPI_Exscan(MPI_IN_PLACE, buffer(), n, MPI_INT, MPI_BXOR, world);
    MPI_Request requests[4];
    MPI_Iallgather(MPI_IN_PLACE, 0, MPI_INT, buffer(), n, MPI_INT, world, &requests[0]);
    MPI_Ialltoall(MPI_IN_PLACE, 0, MPI_INT, buffer(), n, MPI_INT, world, &requests[1]);
    MPI_Iallreduce(MPI_IN_PLACE, buffer(), n, MPI_INT, MPI_MAX, world, &requests[2]);
    MPI_Iscan(MPI_IN_PLACE, buffer(), n, MPI_INT, MPI_BXOR, world, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

// Of the first and the last integer of each element of the type below.
inline void combine(void* in, void* both, int* count, MPI_Datatype*)
{
    for (int i = 0; i < *count; ++i) {
        const int* const a = static_cast<int*>(in) + 6 * i;
        int* const b = static_cast<int*>(both) + 6 * i;
        b[0] = a[0] ^ (b[0] * 3);
        b[3] = a[3] - b[3];
    }
}

inline void operation_of_the_user(Trial& trial)
{
    constexpr int kCount = 500;
    constexpr size_t kExtent = 24;
    const Type type = resized(vector(2, 1, 3), 0, kExtent);
    const auto buffer = [&] { return trial.buffer(kExtent * kCount); };
    MPI_Op op;
    MPI_Op_create(combine, 0, &op);
    char* const out = buffer();
    MPI_Reduce(out, buffer(), kCount, type, op, ranks - 1, world);
    MPI_Allreduce(out, buffer(), kCount, type, op, world);
    MPI_Scan(out, buffer(), kCount, type, op, world);
    MPI_Exscan(out, buffer(), kCount, type, op, world);
    MPI_Reduce_local(out, buffer(), kCount, type, op);
    MPI_Request requests[4];
    MPI_Ireduce(out, buffer(), kCount, type, op, ranks - 1, world, &requests[0]);
    MPI_Iallreduce(out, buffer(), kCount, type, op, world, &requests[1]);
    MPI_Iscan(out, buffer(), kCount, type, op, world, &requests[2]);
    MPI_Iexscan(out, buffer(), kCount, type, op, world, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    MPI_Op_free(&op);
}

inline void pairs(Trial& trial)
{
    constexpr int kCount = 700;
    for (const MPI_Op op : {MPI_MINLOC, MPI_MAXLOC}) {
        char* const out = trial.buffer(8 * kCount);
        MPI_Allreduce(out, trial.buffer(8 * kCount), kCount, MPI_2INT, op, world);
        MPI_Allreduce(out, trial.buffer(8 * kCount), kCount, MPI_FLOAT_INT, op, world);
        MPI_Scan(out, trial.buffer(8 * kCount), kCount, MPI_2INT, op, world);
    }
}

inline void other_types_for_each_rank(Trial& trial)
{
    constexpr int kDistance = 5000, kCount = 600;
    const Type column = vector(kCount, 1, 2);
    std::vector<MPI_Datatype> out_types, in_types;
    std::vector<int> out_counts, in_counts, out_places, in_places;
    for (int i = 0; i < ranks; ++i) {
        const bool odd = (i + rank) % 2 != 0;
        out_types.push_back(odd ? static_cast<MPI_Datatype>(column) : MPI_INT);
        out_counts.push_back(odd ? 1 : kCount);
        out_places.push_back(i * kDistance);
        in_types.push_back(odd ? MPI_INT : static_cast<MPI_Datatype>(column));
        in_counts.push_back(odd ? kCount : 1);
        in_places.push_back((ranks - 1 - i) * kDistance);
    }
    const size_t bytes = kDistance * out_types.size();
    char* const out = trial.buffer(bytes);
    MPI_Alltoallw(out, out_counts.data(), out_places.data(), out_types.data(), trial.buffer(bytes),
                  in_counts.data(), in_places.data(), in_types.data(), world);
    MPI_Request request;
    MPI_Ialltoallw(out, out_counts.data(), out_places.data(), out_types.data(), trial.buffer(bytes),
                   in_counts.data(), in_places.data(), in_types.data(), world, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// Each rank with those of the other parity, rank 0 also with itself.
inline void neighbours_of_a_graph(Trial& trial)
{
    constexpr int n = 1200;
    std::vector<int> others;
    for (int i = 0; i < ranks; ++i) {
        if ((i + rank) % 2 != 0) {
            others.push_back(i);
        }
    }
    if (rank == 0) {
        others.push_back(0);
    }
    const auto degree = static_cast<int>(others.size());
    MPI_Comm graph;
    MPI_Dist_graph_create_adjacent(world, degree, others.data(), MPI_UNWEIGHTED, degree,
                                   others.data(), MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
    const size_t block = sizeof(int) * n, all = block * (others.size() + 1);
    char* const out = trial.buffer(all);
    MPI_Neighbor_alltoall(out, n, MPI_INT, trial.buffer(all), n, MPI_INT, graph);
    MPI_Neighbor_allgather(out, n, MPI_INT, trial.buffer(all), n, MPI_INT, graph);
    const Type column = vector(n / 2, 1, 2);
    const std::vector<MPI_Datatype> columns(others.size(), column), rows(others.size(), MPI_INT);
    const std::vector<int> ones(others.size(), 1), counts(others.size(), n / 2);
    std::vector<MPI_Aint> out_places, in_places;
    for (int i = 0; i < degree; ++i) {
        out_places.push_back(i * static_cast<MPI_Aint>(block));
        in_places.push_back((degree - 1 - i) * static_cast<MPI_Aint>(block));
    }
    MPI_Neighbor_alltoallw(out, ones.data(), out_places.data(), columns.data(), trial.buffer(all),
                           counts.data(), in_places.data(), rows.data(), graph);
    MPI_Request request;
    MPI_Ineighbor_alltoallw(out, ones.data(), out_places.data(), columns.data(), trial.buffer(all),
                            counts.data(), in_places.data(), rows.data(), graph, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&graph);
}

// At the ends of a line there is nobody.
inline void neighbours_of_a_grid(Trial& trial)
{
    constexpr int n = 1200;
    const int periodic = 0;
    MPI_Comm line;
    MPI_Cart_create(world, 1, &ranks, &periodic, 0, &line);
    char* const out = trial.buffer(2 * sizeof(int) * n);
    MPI_Neighbor_alltoall(out, n, MPI_INT, trial.buffer(2 * sizeof(int) * n), n, MPI_INT, line);
    MPI_Neighbor_allgather(out, n, MPI_INT, trial.buffer(2 * sizeof(int) * n), n, MPI_INT, line);
    MPI_Comm_free(&line);
}

inline void persistent_collectives(Trial& trial)
{
#if MPI_VERSION >= 4 && !defined(OPEN_MPI)
    constexpr int n = 2500;
    const auto buffer = [&](int blocks) {
        return trial.buffer(sizeof(int) * n * static_cast<size_t>(blocks));
    };
    char* const out = buffer(1);
    MPI_Request requests[3];
    MPI_Allreduce_init(out, buffer(1), n, MPI_INT, MPI_BXOR, world, MPI_INFO_NULL, &requests[0]);
    MPI_Allgather_init(out, n, MPI_INT, buffer(ranks), n, MPI_INT, world, MPI_INFO_NULL,
                       &requests[1]);
    MPI_Bcast_init(buffer(1), n, MPI_INT, 0, world, MPI_INFO_NULL, &requests[2]);
    for (int i = 0; i < 3; ++i) {
        MPI_Startall(3, requests);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    }
    for (MPI_Request& request : requests) {
        MPI_Request_free(&request);
    }
#else
    (void)trial;
#endif
}

inline const Cases kCollectives = {
    {"of_nothing", 1, of_nothing},
    {"some_of_nothing", 1, some_of_nothing},
    {"in_place", 1, in_place},
    {"operation_of_the_user", 1, operation_of_the_user},
    {"pairs", 1, pairs},
    {"other_types_for_each_rank", 1, other_types_for_each_rank},
    {"neighbours_of_a_graph", 2, neighbours_of_a_graph},
    {"neighbours_of_a_grid", 1, neighbours_of_a_grid},
    {"persistent_collectives", 1, persistent_collectives},
};

} // namespace compare
