// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Calls that versions of the MPIs make wrong in host memory, too: docs/developers/defects.md says
// more of them.
#pragma once

#include "layout.hpp"
#include "library.hpp"

#include <algorithm>
#include <string>

namespace calls {

struct Defect {
    Series since, before; // this version, which has it no more
    Layout layout;        // contiguous: of all types
    const char* call;     // in both forms
};

constexpr Series kNever = {1000, 0};

constexpr Defect kDefectsOfMpich[] = {
    {{4, 0}, {4, 3}, Layout::contiguous, "MPI_Gather_init"},
    {{4, 0}, {4, 3}, Layout::contiguous, "MPI_Scatter_init"},
    {{4, 0}, {4, 1}, Layout::contiguous, "MPI_Allgather_init"},
    {{4, 0}, {4, 3}, Layout::gaps, "MPI_Isendrecv"},
    {{4, 0}, kNever, Layout::gaps, "MPI_Isendrecv_replace"},
};

constexpr Defect kDefectsOfOpenMpi[] = {
    {{4, 0}, kNever, Layout::gaps, "MPI_Allreduce"},
    {{4, 0}, kNever, Layout::gaps, "MPI_Allreduce_in_place"},
    {{4, 0}, kNever, Layout::gaps, "MPI_Op_create"}, // of MPI_Allreduce
    {{5, 0}, kNever, Layout::gaps, "MPI_Psend_init"},
    {{5, 0}, kNever, Layout::gaps, "MPI_Precv_init"},
    {{5, 0}, kNever, Layout::gaps, "MPI_Pready"},
    {{5, 0}, kNever, Layout::gaps, "MPI_Pready_range"},
    {{5, 0}, kNever, Layout::gaps, "MPI_Pready_list"},
    {{5, 0}, kNever, Layout::gaps, "MPI_Parrived"},
};

// With elements of that layout.
inline bool is_defective(const std::string& call, Layout layout)
{
    const auto is_in = [&](Series version) {
        return [&, version](const Defect& defect) {
            return version >= defect.since && version < defect.before &&
                   (defect.layout == Layout::contiguous || defect.layout == layout) &&
                   (call == defect.call || call == defect.call + std::string("_c"));
        };
    };
    return std::ranges::any_of(kDefectsOfMpich, is_in(mpich())) ||
           std::ranges::any_of(kDefectsOfOpenMpi, is_in(open_mpi()));
}

} // namespace calls
