// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Writing what is told of two hosts: as text, and in JSON.
#include "doctor/pair.hpp"

#include "config.h"

#include <cstdio>

#include <nlohmann/json.hpp>

namespace gdr::doctor {
namespace {

std::string name_of(const Ports& ports)
{
    if (ports.near.empty()) {
        return "UCX's choice";
    }
    return ports.near + (ports.far.empty() ? "" : " - " + ports.far);
}

std::string table(const Pairing& pairing)
{
    std::string text;
    for (const Attempt& attempt : pairing.attempts) {
        for (const Figures& figures : attempt.figures) {
            char line[200];
            std::snprintf(line, sizeof(line),
                          "%-20s %-6s memory: 8 bytes %.1f us, %.1f GB/s there, %.1f GB/s back\n",
                          name_of(attempt.ports).c_str(), figures.memory.c_str(), figures.latency,
                          figures.there, figures.back);
            text += line;
        }
    }
    return text + (pairing.emulated && !text.empty()
                       ? "The devices are emulated: these figures say nothing of hardware\n"
                       : "");
}

} // namespace

std::string report(const Pairing& pairing, const Style& style)
{
    const std::vector<Finding> findings = told(pairing.job);
    return "ucx-gdr doctor " PACKAGE_VERSION ", host " + pairing.job.reports[0].host + " with " +
           pairing.job.reports[1].host + ": " + verdict_with_counts(findings) + "\n" +
           describe_hosts(pairing.job) + table(pairing) + list_of(findings, style);
}

std::string to_json(const Pairing& pairing, const std::string& time)
{
    using nlohmann::json;
    json result = json::parse(to_json(pairing.job, time));
    result["emulated"] = pairing.emulated;
    result["pair"] = json::array();
    for (const Attempt& attempt : pairing.attempts) {
        json figures = json::array();
        for (const Figures& one : attempt.figures) {
            figures.push_back({{"memory", one.memory},
                               {"latency", one.latency},
                               {"there", one.there},
                               {"back", one.back}});
        }
        result["pair"].push_back({{"near", attempt.ports.near},
                                  {"far", attempt.ports.far},
                                  {"transfers", attempt.transfers},
                                  {"gpudirect_bytes", attempt.direct_bytes},
                                  {"staged_bytes", attempt.staged_bytes},
                                  {"figures", figures}});
    }
    return result.dump(2) + "\n";
}

} // namespace gdr::doctor
