// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// How the integers of a buffer lie in its memory, and the type and the sum that go with it.
#pragma once

#include <cstddef>

#include <mpi.h>

namespace calls {

// One after the other; or each behind a gap and before one, in a derived type.
enum class Layout { contiguous, gaps };

// In integers: from one element to the next, and what is before it.
constexpr size_t step(Layout layout)
{
    return layout == Layout::contiguous ? 1 : 3;
}
constexpr size_t lead(Layout layout)
{
    return layout == Layout::contiguous ? 0 : 1;
}
constexpr MPI_Aint extent(Layout layout)
{
    return static_cast<MPI_Aint>(step(layout) * sizeof(int));
}

// An element's.
inline MPI_Datatype type_of(Layout layout)
{
    if (layout == Layout::contiguous) {
        return MPI_INT;
    }
    static const MPI_Datatype with_gaps = [] {
        const int length = 1;
        const MPI_Aint before = lead(Layout::gaps) * sizeof(int);
        MPI_Datatype behind_a_gap, type;
        MPI_Type_create_hindexed(1, &length, &before, MPI_INT, &behind_a_gap);
        MPI_Type_create_resized(behind_a_gap, 0, extent(Layout::gaps), &type);
        MPI_Type_free(&behind_a_gap);
        MPI_Type_commit(&type);
        return type;
    }();
    return with_gaps;
}

// A function of MPI_Op_create.
inline void add(void* in, void* both, int* count, MPI_Datatype* type)
{
    const Layout layout = *type == MPI_INT ? Layout::contiguous : Layout::gaps;
    for (int i = 0; i < *count; ++i) {
        const size_t at = i * step(layout) + lead(layout);
        static_cast<int*>(both)[at] += static_cast<int*>(in)[at];
    }
}

// The predefined one takes predefined types alone.
inline MPI_Op sum_of(Layout layout)
{
    if (layout == Layout::contiguous) {
        return MPI_SUM;
    }
    static const MPI_Op of_types_with_gaps = [] {
        MPI_Op op;
        MPI_Op_create(add, 1, &op);
        return op;
    }();
    return of_types_with_gaps;
}

} // namespace calls
