// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What a rank of a job tells the first one: its findings, and what ought to be the same in all.
#pragma once

#include "doctor/examination.hpp"
#include "doctor/routes.hpp"

#include <string>
#include <vector>

namespace gdr::doctor {

struct Trait {
    std::string check; // whose finding a difference is
    std::string name;  // "UCX"
    std::string value;
};

struct RankReport {
    unsigned rank = 0;
    std::string host;
    std::vector<std::string> map; // of GPUs and HCAs
    std::vector<Trait> traits;
    std::vector<Finding> findings;
    std::vector<Route> routes;

    Consequence worst() const;
};

RankReport report_of(unsigned rank, const Examination& examination);

// For the way to the first rank; the reader throws if the text is none.
std::string to_text(const RankReport& report);
RankReport read_rank_report(const std::string& text);

} // namespace gdr::doctor
