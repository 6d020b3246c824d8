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

    // What is wrong with the given consequence or a worse one.
    size_t failures(Consequence least, Consequence most) const;
    // The exit status: the worst consequence.
    int exit_status() const;
    // In words.
    const char* verdict() const;

    const Machine& machine;
    std::vector<Finding> findings;
};

} // namespace gdr::doctor
