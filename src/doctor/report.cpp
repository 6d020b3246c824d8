// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Writing the report.
#include "doctor/report.hpp"

#include "doctor/text.hpp"
#include "doctor/topology.hpp"

#include "config.h"

#include <algorithm>
#include <cctype>

namespace gdr::doctor {
namespace {

constexpr size_t kWordWidth = 7;
constexpr size_t kIdWidth = 20;

std::string padded(std::string text, size_t width)
{
    text.resize(std::max(width, text.size()), ' ');
    return text + " ";
}

std::string counted(size_t count, const std::string& what)
{
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// The word in front of a finding.
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

std::string coloured(const std::string& word, const Style& style)
{
    std::string text = padded(word, kWordWidth);
    if (!style.colour) {
        return text;
    }
    const char* colour = word == "ERROR"     ? "31"
                         : word == "WARNING" ? "33"
                         : word == "ok"      ? "32"
                                             : "0";
    return std::string("\033[") + colour + "m" + text + "\033[0m";
}

void write_finding(const Finding& finding, const Style& style, std::string* text)
{
    const std::string indent(kWordWidth + 1 + kIdWidth + 1, ' ');
    *text += coloured(word_of(finding), style) + padded(finding.id, kIdWidth) +
             finding.result.summary + "\n";
    if (!finding.result.detail.empty()) {
        *text += indent + finding.result.detail + "\n";
    }
    if (!finding.result.fix.empty()) {
        *text += indent + "fix: " + finding.result.fix +
                 (finding.result.needs_root ? "   (root)" : "") + "\n";
    }
}

// "GPU 0 NVIDIA H200  0000:1b:00.0  NUMA 0   mlx5_0:1 0000:19:00.0 InfiniBand, 400 Gb/sec (4X NDR),
// same switch"
void write_topology(const Machine& machine, std::string* text)
{
    const std::vector<Served> map = served(machine);
    for (size_t i = 0; i < machine.gpus.size(); ++i) {
        const Gpu& gpu = machine.gpus[i];
        std::string line = "GPU " + std::to_string(i) + " " +
                           (gpu.model.empty() ? "" : gpu.model + " ") + gpu.pci.address;
        if (gpu.pci.numa_node >= 0) {
            line += " NUMA " + std::to_string(gpu.pci.numa_node);
        }
        for (const auto& [hca, port] : map[i].ports) {
            line += "   " + port->name + " " + hca->pci.address + " " + port->link_layer + ", " +
                    port->rate + ", " + name_of(map[i].distance);
        }
        *text += line + "\n";
    }
}

bool is_shown(const Finding& finding, const Style& style)
{
    return style.verbose || finding.result.status == Status::fail;
}

} // namespace

std::string report(const Examination& examination, const Style& style)
{
    const Machine& machine = examination.machine;
    const size_t errors = examination.failures(Consequence::no_gpudirect, Consequence::cannot_run);
    const size_t warnings = examination.failures(Consequence::loss, Consequence::loss);
    std::string text = "ucx-gdr doctor " PACKAGE_VERSION ", host " + machine.root.facts().host +
                       ": " + examination.verdict() + " (" + counted(errors, "error") + ", " +
                       counted(warnings, "warning") + ")\n";
    write_topology(machine, &text);
    std::vector<Finding> shown = examination.findings;
    std::erase_if(shown, [&](const Finding& finding) { return !is_shown(finding, style); });
    // The worst first; what passed comes last.
    std::ranges::stable_sort(shown, std::greater(), [](const Finding& finding) {
        return finding.result.status == Status::fail ? 1 + static_cast<int>(finding.consequence)
                                                     : 0;
    });
    size_t passed = 0;
    std::vector<std::string> unknown;
    for (const Finding& finding : examination.findings) {
        passed += finding.result.status == Status::pass;
        if (finding.result.status == Status::unknown) {
            unknown.emplace_back(finding.id);
        }
    }
    for (const Finding& finding : shown) {
        write_finding(finding, style, &text);
    }
    text += coloured("ok", style) + counted(passed, "check");
    if (!unknown.empty()) {
        text += ", " + std::to_string(unknown.size()) + " unknown: " + joined(unknown, " ");
    }
    return text + (style.verbose ? "\n" : "   (--verbose)\n");
}

} // namespace gdr::doctor
