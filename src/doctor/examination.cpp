// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Running the checks.
#include "doctor/examination.hpp"

#include "doctor/checks.hpp"

#include <algorithm>

namespace gdr::doctor {

Examination::Examination(const Machine& its_machine) : machine(its_machine)
{
    for (const Check& check : all_checks()) {
        const Result result = check.look(machine);
        findings.push_back({check.id, result.consequence.value_or(check.consequence), result});
    }
}

size_t Examination::failures(Consequence least, Consequence most) const
{
    return static_cast<size_t>(std::ranges::count_if(findings, [&](const Finding& finding) {
        return finding.result.status == Status::fail && finding.consequence >= least &&
               finding.consequence <= most;
    }));
}

int Examination::exit_status() const
{
    auto worst = Consequence::none;
    for (const Finding& finding : findings) {
        if (finding.result.status == Status::fail) {
            worst = std::max(worst, finding.consequence);
        }
    }
    return static_cast<int>(worst);
}

const char* Examination::verdict() const
{
    constexpr const char* kVerdicts[] = {
        "nothing is in the way of GPUDirect RDMA",
        "GPUDirect RDMA works with loss",
        "no GPUDirect RDMA",
        "programs do not run",
    };
    return kVerdicts[exit_status()];
}

} // namespace gdr::doctor
