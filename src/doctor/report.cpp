// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Writing the report.
#include "doctor/report.hpp"

#include "doctor/overview.hpp"

#include "config.h"

namespace gdr::doctor {

std::string report(const Examination& examination, const Style& style)
{
    const Machine& machine = examination.machine;
    return "ucx-gdr doctor " PACKAGE_VERSION ", host " + machine.root.facts().host + ": " +
           verdict_with_counts(examination.findings) + "\n" + overview_of(machine) +
           list_of(examination.findings, style);
}

} // namespace gdr::doctor
