// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Findings in JSON.
#include "doctor/finding_json.hpp"

#include <stdexcept>

namespace gdr::doctor {

using nlohmann::json;

namespace {

Status status_of(const std::string& name)
{
    for (const Status status : {Status::pass, Status::fail, Status::unknown, Status::skipped}) {
        if (name == name_of(status)) {
            return status;
        }
    }
    throw std::runtime_error("no status of a finding: " + name);
}

} // namespace

json finding_to_json(const Finding& finding)
{
    const Result& result = finding.result;
    json evidence = json::array();
    for (const Evidence& one : result.evidence) {
        evidence.push_back({{"file", one.file}, {"value", one.value}});
    }
    return {{"id", finding.id},
            {"severity", severity_of(finding.consequence)},
            {"consequence", static_cast<int>(finding.consequence)},
            {"status", name_of(result.status)},
            {"summary", result.summary},
            {"detail", result.detail},
            {"fix", result.fix},
            {"needs_root", result.needs_root},
            {"evidence", evidence}};
}

Finding finding_of_json(const json& value)
{
    Finding finding{value.at("id"),
                    static_cast<Consequence>(value.at("consequence").get<int>()),
                    {status_of(value.at("status"))}};
    Result& result = finding.result;
    value.at("summary").get_to(result.summary);
    value.at("detail").get_to(result.detail);
    value.at("fix").get_to(result.fix);
    value.at("needs_root").get_to(result.needs_root);
    for (const json& one : value.at("evidence")) {
        result.evidence.push_back({one.at("file"), one.at("value")});
    }
    return finding;
}

} // namespace gdr::doctor
