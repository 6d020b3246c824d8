// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Findings as text.
#pragma once

#include "doctor/finding.hpp"

#include <string>
#include <vector>

namespace gdr::doctor {

struct Style {
    bool verbose = false; // what passed, is unknown or was skipped, too
    bool colour = false;
};

// Lines begin with a word of this many characters, and a blank.
constexpr size_t kWordWidth = 7;
// The text, and blanks to the width and one more.
std::string padded(std::string text, size_t width);

// "no GPUDirect RDMA (2 errors, 1 warning)"
std::string verdict_with_counts(const std::vector<Finding>& findings);
// "1 error", "2 errors"
std::string counted(size_t count, const std::string& what);
// The worst first, at most three lines for each; then what is in order, and what is unknown.
std::string list_of(const std::vector<Finding>& findings, const Style& style);

} // namespace gdr::doctor
