// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The ranks of a job beside each other: what each of them has, and what differs.
#pragma once

#include "doctor/finding_text.hpp"
#include "doctor/rank_report.hpp"

#include <string>
#include <vector>

namespace gdr::doctor {

struct JobFinding {
    Finding finding;
    std::vector<unsigned> ranks;
    bool names_ranks; // in what it says
};

struct Job {
    // reports: of the ranks that were heard of, in order.
    Job(std::vector<RankReport> reports, unsigned size);

    std::vector<RankReport> reports;
    unsigned size;
    std::vector<JobFinding> findings; // each once, whatever the number of its ranks

    // Without their ranks.
    std::vector<Finding> plain_findings() const;
    // "n018 (ranks 2-3)"
    std::string where(const std::vector<unsigned>& ranks) const;

  private:
    void add_silent_ranks();
    void add_findings_of_ranks();
    void add_differences();
};

// The findings, with the names of hosts in what only some ranks find.
std::vector<Finding> told(const Job& job);
// What each host has; hosts that have the same stand together.
std::string describe_hosts(const Job& job);
std::string report(const Job& job, const Style& style);
// docs/reference/doctor-job.schema.json
std::string to_json(const Job& job, const std::string& time);

} // namespace gdr::doctor
