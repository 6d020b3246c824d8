// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Finding HCAs.
#include "doctor/reader/hcas.hpp"

#include "doctor/reader/text.hpp"
#include "verbs/sysfs.hpp"

#include <algorithm>

namespace gdr::doctor {
namespace {

const Path kHcas = "/sys/class/infiniband";
const Path kUverbs = "/sys/class/infiniband_verbs";

// "4: ACTIVE"
std::string word_of(const std::string& state)
{
    return trimmed(state.substr(std::min(state.find(':') + 1, state.size())));
}

std::vector<Port> find_ports(const Root& root, const std::string& hca)
{
    std::vector<Port> ports;
    const Path directory = kHcas / hca / "ports";
    for (const std::string& number : root.list(directory)) {
        Port port;
        port.name = hca + ":" + number;
        port.directory = directory / number;
        port.state = word_of(root.line(port.directory / "state"));
        port.link_layer = root.line(port.directory / "link_layer");
        port.rate = root.line(port.directory / "rate");
        ports.push_back(port);
    }
    return ports;
}

void find_uverbs(const Root& root, Hca* hca)
{
    for (const std::string& name : root.list(kUverbs)) {
        if (root.line(kUverbs / name / "ibdev") == hca->name) {
            hca->uverbs = "/dev/infiniband/" + name;
            hca->has_uverbs_file = root.exists(hca->uverbs);
            hca->may_use = root.may_use(hca->uverbs);
        }
    }
}

// As verbs::Sysfs tells it, below a root.
bool manages_switches(const Root& root, const Path& hca)
{
    return root.read(hca / "node_desc").text.find(verbs::kSwitchManagement) != std::string::npos ||
           root.read(hca / "device/vpd").text.find(verbs::kSwitchManagement) != std::string::npos;
}

// What gdr refuses, and why.
void judge(const Root& root, Hca* hca)
{
    const std::string node_type = root.line(kHcas / hca->name / "node_type");
    if (hca->provider != nullptr && !hca->provider->is_used) {
        hca->refusal = hca->provider->note;
        hca->instead = hca->provider->instead;
    } else if (node_type.starts_with("4:")) { // RDMA_NODE_RNIC
        hca->refusal = "it speaks iWARP, which has no UD queue pairs";
        hca->instead = "UCX_TLS=tcp, or libfabric with its verbs provider";
    } else if (node_type.starts_with("7:")) { // RDMA_NODE_UNSPECIFIED
        hca->refusal = "it has no RC queue pairs, as AWS EFA";
        hca->instead = "UCX_TLS=srd of UCX 1.19 and later, or libfabric";
    } else if (hca->manages_switches) {
        hca->refusal = "it leads to the NVSwitches of this machine";
        hca->instead = "another HCA";
    }
}

} // namespace

bool Hca::is_usable() const
{
    return refusal.empty() && may_use && std::ranges::any_of(ports, &Port::is_active);
}

std::vector<Hca> find_hcas(const Root& root)
{
    std::vector<Hca> hcas;
    for (const std::string& name : root.list(kHcas)) {
        Hca hca;
        hca.name = name;
        hca.pci = read_place(root, kHcas / name / "device");
        if (hca.pci.exists()) {
            hca.driver = root.resolved(directory_of(hca.pci.address) / "driver").filename();
            hca.provider = provider_of_driver(hca.driver);
        } else {
            hca.provider = provider_of_device(name);
        }
        find_uverbs(root, &hca);
        hca.ports = find_ports(root, name);
        hca.manages_switches = manages_switches(root, kHcas / name);
        judge(root, &hca);
        hcas.push_back(hca);
    }
    return hcas;
}

bool any_usable(const std::vector<Hca>& hcas)
{
    return std::ranges::any_of(hcas, &Hca::is_usable);
}

} // namespace gdr::doctor
