// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Writing JSON.
#include "doctor/json.hpp"

#include "doctor/finding_json.hpp"
#include "doctor/topology.hpp"

#include "config.h"

#include <nlohmann/json.hpp>

namespace gdr::doctor {
namespace {

using nlohmann::json;

constexpr int kSchema = 1;

json of_hca(const Hca& hca)
{
    json ports = json::array();
    for (const Port& port : hca.ports) {
        ports.push_back({{"name", port.name},
                         {"state", port.state},
                         {"link_layer", port.link_layer},
                         {"rate", port.rate}});
    }
    return {{"name", hca.name},
            {"pci", hca.pci.address},
            {"numa_node", hca.pci.numa_node},
            {"provider", hca.provider == nullptr ? "" : hca.provider->name},
            {"usable", hca.is_usable()},
            {"ports", ports}};
}

} // namespace

std::string to_json(const Examination& examination, const std::string& time)
{
    const Machine& machine = examination.machine;
    json result = {{"schema", kSchema},
                   {"tool", "ucx-gdr " PACKAGE_VERSION},
                   {"host", machine.root.facts().host},
                   {"time", time},
                   {"ucx", json::array()},
                   {"mpi", json::array()},
                   {"gpus", json::array()},
                   {"hcas", json::array()},
                   {"pairs", json::array()},
                   {"findings", json::array()},
                   {"exit", examination.exit_status()}};
    if (!machine.ucx.libucp.empty()) {
        result["ucx"].push_back(
            {{"path", machine.ucx.libucp.native()}, {"version", machine.root.facts().ucx_version}});
    }
    if (machine.mpi.kind != MpiKind::none) {
        result["mpi"].push_back({{"name", name_of(machine.mpi.kind)},
                                 {"launcher", machine.mpi.launcher.native()},
                                 {"library", machine.mpi.library.native()}});
    }
    for (size_t i = 0; i < machine.gpus.size(); ++i) {
        const Gpu& gpu = machine.gpus[i];
        result["gpus"].push_back({{"index", i},
                                  {"pci", gpu.pci.address},
                                  {"numa_node", gpu.pci.numa_node},
                                  {"model", gpu.model}});
    }
    for (const Hca& hca : machine.hcas) {
        result["hcas"].push_back(of_hca(hca));
    }
    for (const Pair& pair : pairs(machine)) {
        result["pairs"].push_back(
            {{"gpu", pair.gpu}, {"hca", pair.hca->name}, {"path", name_of(pair.distance)}});
    }
    for (const Finding& finding : examination.findings) {
        result["findings"].push_back(finding_to_json(finding));
    }
    // Names of files may be no UTF-8.
    return result.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace gdr::doctor
