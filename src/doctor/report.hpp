// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The findings as text: the verdict first, then what the machine has, then at most three lines for
// each finding.
#pragma once

#include "doctor/examination.hpp"
#include "doctor/finding_text.hpp"

#include <string>

namespace gdr::doctor {

std::string report(const Examination& examination, const Style& style);

} // namespace gdr::doctor
