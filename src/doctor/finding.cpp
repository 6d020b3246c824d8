// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Making findings, and their names.
#include "doctor/finding.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace gdr::doctor {

Result&& Result::with_detail(std::string text) &&
{
    detail = std::move(text);
    return std::move(*this);
}

Result&& Result::as(Consequence other) &&
{
    consequence = other;
    return std::move(*this);
}

Result&& Result::by_root() &&
{
    needs_root = true;
    return std::move(*this);
}

Result&& Result::seen_in(std::string file, std::string value) &&
{
    evidence.push_back({std::move(file), std::move(value)});
    return std::move(*this);
}

Result pass(std::string summary)
{
    return {.status = Status::pass, .summary = std::move(summary)};
}

Result fail(std::string summary, std::string fix)
{
    return {.status = Status::fail, .summary = std::move(summary), .fix = std::move(fix)};
}

Result unknown(std::string cause)
{
    return {.status = Status::unknown, .summary = std::move(cause)};
}

Result skipped(std::string cause)
{
    return {.status = Status::skipped, .summary = std::move(cause)};
}

Result unreadable(const std::string& file, int error)
{
    Result result = unknown(file + ": " + std::generic_category().message(error));
    result.needs_root = error == EACCES || error == EPERM;
    return result;
}

const char* name_of(Status status)
{
    switch (status) {
    case Status::pass:
        return "pass";
    case Status::fail:
        return "fail";
    case Status::unknown:
        return "unknown";
    case Status::skipped:
        return "skipped";
    }
    return "";
}

const char* severity_of(Consequence consequence)
{
    switch (consequence) {
    case Consequence::none:
        return "information";
    case Consequence::loss:
        return "warning";
    default:
        return "error";
    }
}

Consequence worst(const std::vector<Finding>& findings)
{
    auto worst = Consequence::none;
    for (const Finding& finding : findings) {
        if (finding.result.status == Status::fail) {
            worst = std::max(worst, finding.consequence);
        }
    }
    return worst;
}

size_t failures(const std::vector<Finding>& findings, Consequence least, Consequence most)
{
    return static_cast<size_t>(std::ranges::count_if(findings, [&](const Finding& finding) {
        return finding.result.status == Status::fail && finding.consequence >= least &&
               finding.consequence <= most;
    }));
}

const char* verdict_of(Consequence worst)
{
    switch (worst) {
    case Consequence::none:
        return "nothing is in the way of GPUDirect RDMA";
    case Consequence::loss:
        return "GPUDirect RDMA works with loss";
    case Consequence::no_gpudirect:
        return "no GPUDirect RDMA";
    case Consequence::cannot_run:
        return "programs do not run";
    }
    return "";
}

} // namespace gdr::doctor
