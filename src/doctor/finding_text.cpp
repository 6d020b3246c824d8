// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Writing findings.
#include "doctor/finding_text.hpp"

#include "doctor/reader/text.hpp"

#include <algorithm>
#include <functional>

namespace gdr::doctor {
namespace {

constexpr size_t kIdWidth = 20;

std::string word_of(const Finding& finding)
{
    if (finding.result.status != Status::fail) {
        return finding.result.status == Status::pass ? "ok" : name_of(finding.result.status);
    }
    switch (finding.consequence) {
    case Consequence::none:
        return "info";
    case Consequence::loss:
        return "WARNING";
    default:
        return "ERROR";
    }
}

std::string word(const std::string& name, const Style& style)
{
    std::string text = padded(name, kWordWidth);
    if (!style.colour) {
        return text;
    }
    const char* colour = name == "ERROR"     ? "31"
                         : name == "WARNING" ? "33"
                         : name == "ok"      ? "32"
                                             : "0";
    return std::string("\033[") + colour + "m" + text + "\033[0m";
}

std::string text_of(const Finding& finding, const Style& style)
{
    const std::string indent(kWordWidth + 1 + kIdWidth + 1, ' ');
    std::string text = word(word_of(finding), style) + padded(finding.id, kIdWidth) +
                       finding.result.summary + "\n";
    if (!finding.result.detail.empty()) {
        text += indent + finding.result.detail + "\n";
    }
    if (!finding.result.fix.empty()) {
        text += indent + "fix: " + finding.result.fix +
                (finding.result.needs_root ? "   (root)" : "") + "\n";
    }
    return text;
}

bool is_shown(const Finding& finding, const Style& style)
{
    return style.verbose || finding.result.status == Status::fail;
}

// The worst is highest, what passed lowest.
int urgency(const Finding& finding)
{
    return finding.result.status == Status::fail ? 1 + static_cast<int>(finding.consequence) : 0;
}

} // namespace

std::string padded(std::string text, size_t width)
{
    text.resize(std::max(width, text.size()), ' ');
    return text + " ";
}

std::string verdict_with_counts(const std::vector<Finding>& findings)
{
    using enum Consequence;
    return std::string(verdict_of(worst(findings))) + " (" +
           counted(failures(findings, no_gpudirect, cannot_run), "error") + ", " +
           counted(failures(findings, loss, loss), "warning") + ")";
}

std::string counted(size_t count, const std::string& what)
{
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string list_of(const std::vector<Finding>& findings, const Style& style)
{
    std::vector<Finding> shown = findings;
    std::erase_if(shown, [&](const Finding& finding) { return !is_shown(finding, style); });
    std::ranges::stable_sort(shown, std::greater(), urgency);
    size_t passed = 0;
    std::vector<std::string> unknown;
    for (const Finding& finding : findings) {
        passed += finding.result.status == Status::pass;
        if (finding.result.status == Status::unknown) {
            unknown.push_back(finding.id);
        }
    }
    std::string text;
    for (const Finding& finding : shown) {
        text += text_of(finding, style);
    }
    text += word("ok", style) + counted(passed, "check");
    if (!unknown.empty()) {
        text += ", " + std::to_string(unknown.size()) + " unknown: " + joined(unknown, " ");
    }
    return text + (style.verbose ? "\n" : "   (--verbose)\n");
}

} // namespace gdr::doctor
