// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// All checks of a machine, and what follows from them.
#pragma once

#include "doctor/finding.hpp"
#include "doctor/machine.hpp"

#include <vector>

namespace gdr::doctor {

struct Examination {
    explicit Examination(const Machine& machine);

    Consequence worst() const { return doctor::worst(findings); }
    int exit_status() const { return static_cast<int>(worst()); }

    const Machine& machine;
    std::vector<Finding> findings;
};

} // namespace gdr::doctor
