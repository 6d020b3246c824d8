// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Collective calls, each in all its forms.
#pragma once

#include "call.hpp"

#include <numeric>

namespace calls {

// Of the calls whose blocks differ: what one rank has for another.
inline int share(int count, int from, int to)
{
    return count - from - to;
}

template <class Count>
struct Collectives {
    static size_t all(int n) { return static_cast<size_t>(n) * ranks; }

    static void bcast(const Form& form, int n)
    {
        Buffer buffer(n, rank == 0 ? mark(0) : 0);
        collective(form, buffer.data(), Count{n}, buffer.type(), 0, world);
        buffer.expect(0, n, mark(0));
    }

    static void gather(const Form& form, int n)
    {
        Buffer out(n, mark(rank)), in(all(n), 0);
        collective(form, out.data(), Count{n}, out.type(), in.data(), Count{n}, in.type(), 0,
                   world);
        for (int r = 0; r < ranks && rank == 0; ++r) {
            in.expect(static_cast<size_t>(r) * n, n, mark(r));
        }
    }

    static void gatherv(const Form& form, int n)
    {
        Buffer out(n, mark(rank)), in(all(n), 0);
        const Shares<Count> from(ranks, n, [n](int r) { return share(n, r, 0); });
        collective(form, out.data(), from.counts[rank], out.type(), in.data(), from.counts.data(),
                   from.offsets.data(), in.type(), 0, world);
        for (int r = 0; r < ranks && rank == 0; ++r) {
            in.expect(from.offsets[r], from.counts[r], mark(r));
        }
    }

    static void scatter(const Form& form, int n)
    {
        Buffer out(all(n), 5), in(n, 0);
        collective(form, out.data(), Count{n}, out.type(), in.data(), Count{n}, in.type(), 0,
                   world);
        in.expect(0, n, 5 + rank * n);
    }

    static void scatterv(const Form& form, int n)
    {
        Buffer out(all(n), 5), in(n, 0);
        const Shares<Count> to(ranks, n, [n](int r) { return share(n, 0, r); });
        collective(form, out.data(), to.counts.data(), to.offsets.data(), out.type(), in.data(),
                   to.counts[rank], in.type(), 0, world);
        in.expect(0, to.counts[rank], 5 + rank * n);
    }

    static void allgather(const Form& form, int n)
    {
        Buffer out(n, mark(rank)), in(all(n), 0);
        collective(form, out.data(), Count{n}, out.type(), in.data(), Count{n}, in.type(), world);
        for (int r = 0; r < ranks; ++r) {
            in.expect(static_cast<size_t>(r) * n, n, mark(r));
        }
    }

    static void allgatherv(const Form& form, int n)
    {
        Buffer out(n, mark(rank)), in(all(n), 0);
        const Shares<Count> from(ranks, n, [n](int r) { return share(n, r, 0); });
        collective(form, out.data(), from.counts[rank], out.type(), in.data(), from.counts.data(),
                   from.offsets.data(), in.type(), world);
        for (int r = 0; r < ranks; ++r) {
            in.expect(from.offsets[r], from.counts[r], mark(r));
        }
    }

    static void alltoall(const Form& form, int n)
    {
        Buffer out(all(n), mark(rank)), in(all(n), 0);
        collective(form, out.data(), Count{n}, out.type(), in.data(), Count{n}, in.type(), world);
        for (int r = 0; r < ranks; ++r) {
            in.expect(static_cast<size_t>(r) * n, n, mark(r) + rank * n);
        }
    }

    static void alltoallv(const Form& form, int n)
    {
        Buffer out(all(n), mark(rank)), in(all(n), 0);
        const Shares<Count> each(ranks, n, [n](int r) { return share(n, rank, r); });
        collective(form, out.data(), each.counts.data(), each.offsets.data(), out.type(), in.data(),
                   each.counts.data(), each.offsets.data(), in.type(), world);
        for (int r = 0; r < ranks; ++r) {
            in.expect(each.offsets[r], each.counts[r], mark(r) + rank * n);
        }
    }

    static void alltoallw(const Form& form, int n)
    {
        Buffer out(all(n), mark(rank)), in(all(n), 0);
        const Shares<Count> each(ranks, n, [n](int r) { return share(n, rank, r); });
        const auto bytes = each.byte_offsets(out.extent());
        const std::vector<MPI_Datatype> types(ranks, out.type());
        collective(form, out.data(), each.counts.data(), bytes.data(), types.data(), in.data(),
                   each.counts.data(), bytes.data(), types.data(), world);
        for (int r = 0; r < ranks; ++r) {
            in.expect(each.offsets[r], each.counts[r], mark(r) + rank * n);
        }
    }

    static void reduce(const Form& form, int n)
    {
        Buffer out(n, mark(rank)), in(n, 0);
        collective(form, out.data(), in.data(), Count{n}, in.type(), in.sum(), 0, world);
        if (rank == 0) {
            in.expect(0, n, [](size_t i) { return sum_of_marks(ranks - 1, i); });
        }
    }

    static void allreduce(const Form& form, int n)
    {
        Buffer out(n, mark(rank)), in(n, 0);
        collective(form, out.data(), in.data(), Count{n}, in.type(), in.sum(), world);
        in.expect(0, n, [](size_t i) { return sum_of_marks(ranks - 1, i); });
    }

    static void scan(const Form& form, int n)
    {
        Buffer out(n, mark(rank)), in(n, 0);
        collective(form, out.data(), in.data(), Count{n}, in.type(), in.sum(), world);
        in.expect(0, n, [](size_t i) { return sum_of_marks(rank, i); });
    }

    static void exscan(const Form& form, int n)
    {
        Buffer out(n, mark(rank)), in(n, 0);
        collective(form, out.data(), in.data(), Count{n}, in.type(), in.sum(), world);
        if (rank > 0) {
            in.expect(0, n, [](size_t i) { return sum_of_marks(rank - 1, i); });
        }
    }

    static void reduce_scatter(const Form& form, int n)
    {
        Buffer out(all(n), mark(rank)), in(n, 0);
        const Shares<Count> to(ranks, n, [n](int r) { return share(n, 0, r); });
        collective(form, out.data(), in.data(), to.counts.data(), in.type(), in.sum(), world);
        const auto before = std::accumulate(to.counts.begin(), to.counts.begin() + rank, size_t{0});
        in.expect(0, to.counts[rank],
                  [&](size_t i) { return sum_of_marks(ranks - 1, i + before); });
    }

    static void reduce_scatter_block(const Form& form, int n)
    {
        Buffer out(all(n), mark(rank)), in(n, 0);
        collective(form, out.data(), in.data(), Count{n}, in.type(), in.sum(), world);
        in.expect(0, n, [&](size_t i) {
            return sum_of_marks(ranks - 1, i + static_cast<size_t>(n) * rank);
        });
    }
};

// Of a row of ranks, where those at the ends have a neighbour less, whose block stays as it was.
class Neighbours {
  public:
    Neighbours()
    {
        const int periodic = 0;
        MPI_Cart_create(world, 1, &ranks, &periodic, 0, &comm_);
    }
    Neighbours(const Neighbours&) = delete;
    Neighbours& operator=(const Neighbours&) = delete;
    ~Neighbours() { MPI_Comm_free(&comm_); }

    MPI_Comm comm() const { return comm_; }

    // What the neighbours' blocks are to begin with; blocks of these lengths, n apart.
    static void expect(Buffer& in, int n, int from_left, int from_right, int left_length,
                       int right_length)
    {
        in.expect(0, left_length, rank == 0 ? kBefore : from_left);
        in.expect(n, right_length, rank + 1 == ranks ? kBefore + n : from_right);
    }

    static constexpr int kBefore = 7;

  private:
    MPI_Comm comm_;
};

template <class Count>
struct NeighbourCollectives {
    static constexpr int kSides = 2;
    static size_t both(int n) { return kSides * static_cast<size_t>(n); }
    // To and from the rank on the left less than to and from that on the right's left.
    static Shares<Count> shares(int n, bool that_come)
    {
        const int less = that_come ? 1 : 0;
        return Shares<Count>(kSides, n, [=](int side) { return n - 1 - (side == less ? 1 : 0); });
    }

    static void allgather(const Form& form, int n)
    {
        const Neighbours row;
        Buffer out(n, mark(rank)), in(both(n), Neighbours::kBefore);
        collective(form, out.data(), Count{n}, out.type(), in.data(), Count{n}, in.type(),
                   row.comm());
        Neighbours::expect(in, n, mark(rank - 1), mark(rank + 1), n, n);
    }

    static void allgatherv(const Form& form, int n)
    {
        const Neighbours row;
        Buffer out(n, mark(rank)), in(both(n), Neighbours::kBefore);
        const std::vector<Count> counts(kSides, n - 1);
        const std::vector<Displacement<Count>> offsets = {0, n};
        collective(form, out.data(), Count{n - 1}, out.type(), in.data(), counts.data(),
                   offsets.data(), in.type(), row.comm());
        Neighbours::expect(in, n, mark(rank - 1), mark(rank + 1), n - 1, n - 1);
    }

    static void alltoall(const Form& form, int n)
    {
        const Neighbours row;
        Buffer out(both(n), mark(rank)), in(both(n), Neighbours::kBefore);
        collective(form, out.data(), Count{n}, out.type(), in.data(), Count{n}, in.type(),
                   row.comm());
        Neighbours::expect(in, n, mark(rank - 1) + n, mark(rank + 1), n, n);
    }

    static void alltoallv(const Form& form, int n)
    {
        const Neighbours row;
        Buffer out(both(n), mark(rank)), in(both(n), Neighbours::kBefore);
        const auto to = shares(n, false), from = shares(n, true);
        collective(form, out.data(), to.counts.data(), to.offsets.data(), out.type(), in.data(),
                   from.counts.data(), from.offsets.data(), in.type(), row.comm());
        Neighbours::expect(in, n, mark(rank - 1) + n, mark(rank + 1), n - 1, n - 2);
    }

    static void alltoallw(const Form& form, int n)
    {
        const Neighbours row;
        Buffer out(both(n), mark(rank)), in(both(n), Neighbours::kBefore);
        const auto to = shares(n, false), from = shares(n, true);
        const std::vector<MPI_Aint> offsets = {0, n * out.extent()};
        const std::vector<MPI_Datatype> types(kSides, out.type());
        collective(form, out.data(), to.counts.data(), offsets.data(), types.data(), in.data(),
                   from.counts.data(), offsets.data(), types.data(), row.comm());
        Neighbours::expect(in, n, mark(rank - 1) + n, mark(rank + 1), n - 1, n - 2);
    }
};

template <class Count>
void reduce_local(const Form& form, int n)
{
    Buffer in(n, mark(0)), both(n, mark(1));
    invoke(form.name, in.data(), both.data(), Count{n}, in.type(), in.sum());
    both.expect(0, n, [](size_t i) { return sum_of_marks(1, i); });
}

inline std::vector<Call> collective_calls()
{
    using Small = Collectives<int>;
    using Large = Collectives<MPI_Count>;
    using SmallNeighbours = NeighbourCollectives<int>;
    using LargeNeighbours = NeighbourCollectives<MPI_Count>;
    std::vector<Call> made;
    const auto add = [&](const char* name, const Run& small, const Run& large) {
        std::vector<Form> forms = with_persistent(name);
        forms.push_back(
            {"MPIX_" + std::string(name) + "_init", Completion::persistent}); // Open MPI 4's
        add_forms(made, forms, small, large);
    };
    add("Bcast", Small::bcast, Large::bcast);
    add("Gather", Small::gather, Large::gather);
    add("Gatherv", Small::gatherv, Large::gatherv);
    add("Scatter", Small::scatter, Large::scatter);
    add("Scatterv", Small::scatterv, Large::scatterv);
    add("Allgather", Small::allgather, Large::allgather);
    add("Allgatherv", Small::allgatherv, Large::allgatherv);
    add("Alltoall", Small::alltoall, Large::alltoall);
    add("Alltoallv", Small::alltoallv, Large::alltoallv);
    add("Alltoallw", Small::alltoallw, Large::alltoallw);
    add("Reduce", Small::reduce, Large::reduce);
    add("Allreduce", Small::allreduce, Large::allreduce);
    add("Scan", Small::scan, Large::scan);
    add("Exscan", Small::exscan, Large::exscan);
    add("Reduce_scatter", Small::reduce_scatter, Large::reduce_scatter);
    add("Reduce_scatter_block", Small::reduce_scatter_block, Large::reduce_scatter_block);
    add("Neighbor_allgather", SmallNeighbours::allgather, LargeNeighbours::allgather);
    add("Neighbor_allgatherv", SmallNeighbours::allgatherv, LargeNeighbours::allgatherv);
    add("Neighbor_alltoall", SmallNeighbours::alltoall, LargeNeighbours::alltoall);
    add("Neighbor_alltoallv", SmallNeighbours::alltoallv, LargeNeighbours::alltoallv);
    add("Neighbor_alltoallw", SmallNeighbours::alltoallw, LargeNeighbours::alltoallw);
    add_forms(made, blocking("Reduce_local"), reduce_local<int>, reduce_local<MPI_Count>);
    return made;
}

} // namespace calls
