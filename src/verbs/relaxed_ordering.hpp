// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// PCIe relaxed ordering is a property of registrations: an HCA's writes to such memory may overtake
// its other writes on the bus. Its completions do not overtake them.
#pragma once

#include "verbs/handles.hpp"

#include <cerrno>
#include <filesystem>

namespace gdr::verbs {

// Whether this machine's CPU takes relaxed writes faster: AMD's EPYC, and Intel's Xeons from
// Sapphire Rapids to Emerald Rapids.
bool gains_by_relaxed_ordering(const std::filesystem::path& cpuinfo = "/proc/cpuinfo");

inline constexpr int kRelaxedOrdering = IBV_ACCESS_RELAXED_ORDERING;

// Whether the error says that the HCA does not have registrations of this ordering.
inline bool is_unsupported(int error)
{
    return error == EINVAL || error == EOPNOTSUPP;
}

// HCAs known to this process to support only registrations with relaxed ordering.
bool has_relaxed_ordering_alone(const ibv_pd* pd);
void note_relaxed_ordering_alone(const ibv_pd* pd);

// Returns the region from make(access), which calls ibv_reg_mr or the like, with the ordering that
// access asks for, or with the other ordering if the HCA lacks it. On failure errno is that of the
// first attempt.
MemoryRegion register_memory(const ibv_pd* pd, int access, const auto& make)
{
    if (has_relaxed_ordering_alone(pd)) {
        access |= kRelaxedOrdering;
    }
    MemoryRegion mr(make(access));
    const int error = mr ? 0 : errno;
    if (is_unsupported(error)) {
        mr.reset(make(access ^ kRelaxedOrdering));
        if (mr && (access & kRelaxedOrdering) == 0) {
            note_relaxed_ordering_alone(pd);
        }
        errno = error;
    }
    return mr;
}

} // namespace gdr::verbs
