// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What is told of a rank.
#include "doctor/rank_report.hpp"

#include "doctor/finding_json.hpp"
#include "doctor/overview.hpp"
#include "doctor/reader/text.hpp"
#include "doctor/topology.hpp"

#include "config.h"

#include <algorithm>
#include <string_view>

namespace gdr::doctor {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Trait, check, name, value)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Link, name, rate)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Route, port, gpu, distance, of_hca, of_gpu)

namespace {

using nlohmann::json;

constexpr std::string_view kPrefixes[] = {"UCX_", "UGDR_", "CUDA_"};
constexpr std::string_view kNames[] = {"GDR_EMULATION",
                                       "LD_LIBRARY_PATH",
                                       "LD_PRELOAD",
                                       "FI_PROVIDER",
                                       "OMPI_MCA_accelerator",
                                       "OMPI_MCA_btl",
                                       "OMPI_MCA_coll",
                                       "OMPI_MCA_mca_base_component_path",
                                       "OMPI_MCA_mtl",
                                       "OMPI_MCA_opal_common_ucx_devices",
                                       "OMPI_MCA_opal_common_ucx_tls",
                                       "OMPI_MCA_osc",
                                       "OMPI_MCA_pml"};
// A rank has its own GPU and HCA; compilers alone read the others.
constexpr std::string_view kMayDiffer[] = {"CUDA_VISIBLE_DEVICES", "UCX_NET_DEVICES", "CUDA_HOME",
                                           "CUDA_PATH", "CUDA_ROOT"};

bool is_compared(const std::string& variable)
{
    if (std::ranges::find(kMayDiffer, variable) != std::end(kMayDiffer)) {
        return false;
    }
    return std::ranges::find(kNames, variable) != std::end(kNames) ||
           std::ranges::any_of(
               kPrefixes, [&](std::string_view prefix) { return variable.starts_with(prefix); });
}

std::string limit(const std::optional<uint64_t>& count, std::string (*text)(uint64_t))
{
    return count ? text(*count) : "unlimited";
}

std::string number(uint64_t count)
{
    return std::to_string(count);
}

void add_versions(const Machine& machine, std::vector<Trait>* traits)
{
    constexpr const char* kCheck = "launch.mixed";
    traits->push_back({kCheck, "ucx-gdr", PACKAGE_VERSION});
    traits->push_back({kCheck, "the kernel", machine.root.facts().kernel});
    traits->push_back({kCheck, "the GPU driver",
                       machine.driver.version + (machine.driver.is_open ? ", open modules" : "")});
    traits->push_back({kCheck, "UCX", ucx_of(machine)});
    traits->push_back({kCheck, "MPI",
                       machine.mpi.kind == MpiKind::none
                           ? ""
                           : std::string(name_of(machine.mpi.kind)) + ", " +
                                 machine.root.resolved(machine.mpi.library).native()});
}

void add_devices(const Machine& machine, std::vector<Trait>* traits)
{
    std::vector<std::string> ports;
    for (const Hca& hca : machine.hcas) {
        for (const Port& port : hca.ports) {
            ports.push_back(port.name + " " + port.link_layer + ", " + port.rate + ", " +
                            port.state);
        }
        if (std::ranges::any_of(hca.ports, &Port::is_ethernet)) {
            const Path net = Path("/sys/class/infiniband") / hca.name / "device/net";
            for (const std::string& interface : machine.root.list(net)) {
                traits->push_back({"roce.mtu", "the MTU of " + hca.name,
                                   machine.root.line(net / interface / "mtu")});
            }
        }
    }
    std::vector<std::string> models;
    for (const Gpu& gpu : machine.gpus) {
        models.push_back(gpu.model.empty() ? "a GPU" : gpu.model);
    }
    traits->push_back({"job.devices", "HCAs", joined(ports, "; ")});
    traits->push_back({"job.devices", "GPUs", joined(models, ", ")});
}

void add_process(const Machine& machine, std::vector<Trait>* traits)
{
    const Facts& facts = machine.root.facts();
    traits->push_back(
        {"job.limits", "locked memory",
         facts.locks_without_limit ? "unlimited" : limit(facts.locked_memory, bytes)});
    traits->push_back({"job.limits", "open files", limit(facts.descriptors, number)});
    traits->push_back(
        {"job.limits", "/dev/shm", facts.shared_memory ? bytes(*facts.shared_memory) : ""});
    for (const char* space : {"pid", "ipc", "user"}) {
        traits->push_back({"ct.ns", std::string("the ") + space + " namespace",
                           machine.root.resolved(Path("/proc/self/ns") / space).filename()});
    }
    for (const auto& [name, value] : facts.environment) {
        if (is_compared(name)) {
            traits->push_back({"job.env", name, value});
        }
    }
}

} // namespace

Consequence RankReport::worst() const
{
    return doctor::worst(findings);
}

RankReport report_of(unsigned rank, const Examination& examination)
{
    const Machine& machine = examination.machine;
    RankReport report{rank, machine.root.facts().host, map_of(machine),
                      {},   examination.findings,      routes(machine)};
    add_versions(machine, &report.traits);
    add_devices(machine, &report.traits);
    add_process(machine, &report.traits);
    return report;
}

std::string to_text(const RankReport& report)
{
    json findings = json::array();
    for (const Finding& finding : report.findings) {
        findings.push_back(finding_to_json(finding));
    }
    return json{{"rank", report.rank},     {"host", report.host},     {"map", report.map},
                {"traits", report.traits}, {"routes", report.routes}, {"findings", findings}}
        .dump(-1, ' ', false, json::error_handler_t::replace);
}

RankReport read_rank_report(const std::string& text)
{
    const json value = json::parse(text);
    RankReport report;
    value.at("rank").get_to(report.rank);
    value.at("host").get_to(report.host);
    value.at("map").get_to(report.map);
    value.at("traits").get_to(report.traits);
    value.at("routes").get_to(report.routes);
    for (const json& finding : value.at("findings")) {
        report.findings.push_back(finding_of_json(finding));
    }
    return report;
}

} // namespace gdr::doctor
