// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The UCX that a command gets, and others on the disk.
#pragma once

#include "doctor/mpi.hpp"

#include <vector>

namespace gdr::doctor {

struct Ucx {
    Path libucp; // empty: none is found
    Path libucs;
    bool has_cuda = false;
    std::vector<Path> others; // libucp that other programs may get
};

Ucx find_ucx(const Root& root, const Command& command, const Loader& loader, const Mpi& mpi);

} // namespace gdr::doctor
