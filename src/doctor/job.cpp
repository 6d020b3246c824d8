// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Comparing ranks.
#include "doctor/job.hpp"

#include "doctor/reader/text.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace gdr::doctor {
namespace {

constexpr size_t kMostHosts = 4; // that are named

struct Comparison {
    const char* check;
    bool within_host; // ranks of one host alone are compared
    const char* same; // if nothing differs
    const char* advice;
};

constexpr Comparison kComparisons[] = {
    {"launch.mixed", false, "versions are the same on all ranks",
     "ranks with different versions may not reach each other: install the same everywhere"},
    {"job.devices", false, "all ranks see the same kinds of devices",
     "UCX chooses in each rank by what that one has: the slowest host sets the pace"},
    {"job.limits", false, "limits are the same on all ranks",
     "launchers pass on the limits of their daemons: see limits.memlock in doctor.md"},
    {"job.env", false, "variables are the same on all ranks",
     "launchers pass variables by -x NAME (Open MPI), -genv NAME VALUE (MPICH), --export=ALL "
     "(Slurm)"},
    {"ct.ns", true, "the ranks of a host share their namespaces",
     "no shared memory and no CUDA IPC between them: --pid=host --ipc=host for containers"},
    {"roce.mtu", false, "the MTU is the same on all hosts",
     "RoCE takes the smaller one for each connection: ip link set mtu"},
};

using RanksByValue = std::map<std::string, std::vector<unsigned>>;

const std::string* value_of(const RankReport& report, const std::string& check,
                            const std::string& name)
{
    const auto found = std::ranges::find_if(report.traits, [&](const Trait& trait) {
        return trait.check == check && trait.name == name;
    });
    return found == report.traits.end() ? nullptr : &found->value;
}

std::vector<std::string> names_of(const std::vector<RankReport>& reports, const std::string& check)
{
    std::vector<std::string> names;
    for (const RankReport& report : reports) {
        for (const Trait& trait : report.traits) {
            if (trait.check == check && std::ranges::find(names, trait.name) == names.end()) {
                names.push_back(trait.name);
            }
        }
    }
    return names;
}

// The ranks of each group that has to have one value: of each host, or all.
std::vector<RanksByValue> grouped(const std::vector<RankReport>& reports,
                                  const Comparison& comparison, const std::string& name)
{
    std::map<std::string, RanksByValue> groups;
    for (const RankReport& report : reports) {
        const std::string* value = value_of(report, comparison.check, name);
        groups[comparison.within_host ? report.host : ""]
              [value == nullptr || value->empty() ? "none" : *value]
                  .push_back(report.rank);
    }
    std::vector<RanksByValue> result;
    result.reserve(groups.size());
    for (auto& [host, values] : groups) {
        result.push_back(std::move(values));
    }
    return result;
}

// "0-2, 5"
std::string ranges(const std::vector<unsigned>& ranks)
{
    std::vector<std::string> parts;
    for (size_t begin = 0; begin < ranks.size();) {
        size_t end = begin + 1;
        while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) {
            ++end;
        }
        parts.push_back(std::to_string(ranks[begin]) +
                        (end - begin > 1 ? "-" + std::to_string(ranks[end - 1]) : ""));
        begin = end;
    }
    return joined(parts, ", ");
}

bool tell_the_same(const Finding& one, const Finding& other)
{
    return one.id == other.id && one.consequence == other.consequence &&
           one.result.status == other.result.status && one.result.summary == other.result.summary &&
           one.result.detail == other.result.detail && one.result.fix == other.result.fix;
}

} // namespace

Job::Job(std::vector<RankReport> its_reports, unsigned its_size)
    : reports(std::move(its_reports)), size(its_size)
{
    add_silent_ranks();
    add_differences();
    add_findings_of_ranks();
}

std::vector<Finding> Job::plain_findings() const
{
    std::vector<Finding> plain;
    for (const JobFinding& one : findings) {
        plain.push_back(one.finding);
    }
    return plain;
}

std::string Job::where(const std::vector<unsigned>& ranks) const
{
    std::vector<std::string> hosts;
    for (const RankReport& report : reports) {
        if (std::ranges::find(ranks, report.rank) != ranks.end() &&
            std::ranges::find(hosts, report.host) == hosts.end()) {
            hosts.push_back(report.host);
        }
    }
    std::string more;
    if (hosts.size() > kMostHosts) {
        more = " and " + std::to_string(hosts.size() - kMostHosts) + " more";
        hosts.resize(kMostHosts);
    }
    return joined(hosts, ", ") + more + (ranks.size() == 1 ? " (rank " : " (ranks ") +
           ranges(ranks) + ")";
}

void Job::add_silent_ranks()
{
    std::vector<unsigned> silent;
    for (unsigned rank = 0; rank < size; ++rank) {
        if (std::ranges::find(reports, rank, &RankReport::rank) == reports.end()) {
            silent.push_back(rank);
        }
    }
    Result result = pass("all " + std::to_string(size) + " ranks told");
    if (!silent.empty()) {
        result =
            fail((silent.size() == 1 ? "nothing was heard of rank "
                                     : "nothing was heard of ranks ") +
                     ranges(silent),
                 "")
                .with_detail("they have not started, or do not see the directory by which ranks "
                             "tell each other (--job-dir)");
    }
    findings.push_back({{"job.ranks", Consequence::cannot_run, result}, silent, true});
}

void Job::add_differences()
{
    for (const Comparison& comparison : kComparisons) {
        bool differs = false;
        for (const std::string& name : names_of(reports, comparison.check)) {
            for (const RanksByValue& values : grouped(reports, comparison, name)) {
                if (values.size() == 1) {
                    continue;
                }
                differs = true;
                std::vector<std::string> parts;
                std::vector<unsigned> ranks;
                for (const auto& [value, its_ranks] : values) {
                    parts.push_back(value + " on " + where(its_ranks));
                    ranks.insert(ranks.end(), its_ranks.begin(), its_ranks.end());
                }
                std::ranges::sort(ranks);
                findings.push_back(
                    {{comparison.check, Consequence::loss,
                      fail(name + (name.ends_with('s') ? " differ: " : " differs: ") +
                               joined(parts, "; "),
                           "")
                          .with_detail(comparison.advice)},
                     ranks,
                     true});
            }
        }
        if (!differs) {
            findings.push_back(
                {{comparison.check, Consequence::loss, pass(comparison.same)}, {}, true});
        }
    }
}

void Job::add_findings_of_ranks()
{
    std::vector<JobFinding> merged;
    for (const RankReport& report : reports) {
        for (const Finding& finding : report.findings) {
            const auto same = std::ranges::find_if(merged, [&](const JobFinding& other) {
                return tell_the_same(finding, other.finding);
            });
            if (same == merged.end()) {
                merged.push_back({finding, {report.rank}, false});
            } else {
                same->ranks.push_back(report.rank);
            }
        }
    }
    findings.insert(findings.end(), merged.begin(), merged.end());
}

} // namespace gdr::doctor
