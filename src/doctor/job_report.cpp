// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Writing what is told of a job: as text, and in JSON.
#include "doctor/finding_json.hpp"
#include "doctor/job.hpp"

#include "config.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace gdr::doctor {
namespace {

constexpr int kSchema = 1;

size_t hosts(const Job& job)
{
    std::set<std::string> names;
    for (const RankReport& one : job.reports) {
        names.insert(one.host);
    }
    return names.size();
}

} // namespace

std::string describe_hosts(const Job& job)
{
    struct Group {
        const RankReport* first;
        std::vector<unsigned> ranks;
    };
    std::vector<Group> groups;
    for (const RankReport& one : job.reports) {
        const auto same = std::ranges::find_if(groups, [&](const Group& group) {
            return std::make_tuple(group.first->worst(), group.first->map) ==
                   std::make_tuple(one.worst(), one.map);
        });
        if (same == groups.end()) {
            groups.push_back({&one, {one.rank}});
        } else {
            same->ranks.push_back(one.rank);
        }
    }
    std::string text;
    for (const Group& group : groups) {
        text += "on " + job.where(group.ranks) + ": " + verdict_of(group.first->worst()) + "\n";
        for (const std::string& line : group.first->map) {
            text += "  " + line + "\n";
        }
    }
    return text;
}

std::vector<Finding> told(const Job& job)
{
    std::vector<Finding> findings;
    for (const JobFinding& one : job.findings) {
        Finding finding = one.finding;
        if (!one.names_ranks && one.ranks.size() < job.reports.size()) {
            finding.result.summary = "on " + job.where(one.ranks) + ": " + finding.result.summary;
        }
        findings.push_back(finding);
    }
    return findings;
}

std::string report(const Job& job, const Style& style)
{
    const std::vector<Finding> findings = told(job);
    return "ucx-gdr doctor " PACKAGE_VERSION ", job of " + counted(job.size, "rank") + " on " +
           counted(hosts(job), "host") + ": " + verdict_with_counts(findings) + "\n" +
           describe_hosts(job) + list_of(findings, style);
}

std::string to_json(const Job& job, const std::string& time)
{
    using nlohmann::json;
    json result = {{"schema", kSchema},
                   {"tool", "ucx-gdr " PACKAGE_VERSION},
                   {"time", time},
                   {"size", job.size},
                   {"ranks", json::array()},
                   {"findings", json::array()},
                   {"exit", static_cast<int>(worst(job.plain_findings()))}};
    for (const RankReport& one : job.reports) {
        json traits = json::array();
        for (const Trait& trait : one.traits) {
            traits.push_back({{"name", trait.name}, {"value", trait.value}});
        }
        result["ranks"].push_back({{"rank", one.rank},
                                   {"host", one.host},
                                   {"exit", static_cast<int>(one.worst())},
                                   {"compared", traits}});
    }
    for (const JobFinding& one : job.findings) {
        json finding = finding_to_json(one.finding);
        finding["ranks"] = one.ranks;
        result["findings"].push_back(finding);
    }
    return result.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace gdr::doctor
