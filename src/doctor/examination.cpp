// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Running the checks.
#include "doctor/examination.hpp"

#include "doctor/checks.hpp"

namespace gdr::doctor {

Examination::Examination(const Machine& its_machine) : machine(its_machine)
{
    for (const Check& check : all_checks()) {
        const Result result = check.look(machine);
        findings.push_back({check.id, result.consequence.value_or(check.consequence), result});
    }
}

} // namespace gdr::doctor
