// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Checks of the way between GPU and HCA.
#include "doctor/checks.hpp"

#include "doctor/reader/text.hpp"
#include "doctor/topology.hpp"

#include <cstdlib>

namespace gdr::doctor {
namespace {

using topology::Distance;

// Links that are slower than they could be.
class Links {
  public:
    explicit Links(const Root& root) : root_(root) {}

    void look_at(const std::string& name, const topology::Place& device, bool speed_too)
    {
        for (const std::string& end : lower_ends(device)) {
            const std::string width = below(end, "link_width");
            const std::string speed = speed_too ? below(end, "link_speed") : "";
            if (!width.empty()) {
                slow.push_back(name + " " + end + " has " + width + " lanes");
            }
            if (!speed.empty()) {
                slow.push_back(name + " " + end + " runs at " + speed);
            }
        }
    }

    std::vector<std::string> slow;
    size_t seen = 0;

  private:
    // The ends of links that point away from the processor: a link has the speed of its slower end,
    // and a port above a card may well be wider. From the device upwards every second is such an
    // end.
    static std::vector<std::string> lower_ends(const topology::Place& device)
    {
        std::vector<std::string> ends{device.address};
        for (size_t i = device.bridges.size(); i >= 2; i -= 2) {
            ends.push_back(device.bridges[i - 2]);
        }
        return ends;
    }

    // "8.0 GT/s PCIe of 32.0 GT/s PCIe"; empty if the property is as high as it can be.
    std::string below(const std::string& address, const std::string& property)
    {
        const std::string now = root_.line(directory_of(address) / ("current_" + property));
        const std::string most = root_.line(directory_of(address) / ("max_" + property));
        const double value = std::strtod(now.c_str(), nullptr); // 0: "Unknown"
        seen += value > 0;
        return value > 0 && value < std::strtod(most.c_str(), nullptr) ? now + " of " + most : "";
    }

    const Root& root_;
};

} // namespace

Result pci_links(const Machine& machine)
{
    Links links(machine.root);
    bool any = false;
    for (const Hca& hca : machine.hcas) {
        if (hca.pci.exists()) {
            any = true;
            links.look_at(hca.name, hca.pci, true);
        }
    }
    for (const Gpu& gpu : machine.gpus) {
        any = true;
        // An idle GPU lowers the speed of its links.
        links.look_at("GPU", gpu.pci, false);
    }
    if (!any) {
        return skipped("there is neither HCA nor GPU on PCI");
    }
    if (links.slow.empty()) {
        return links.seen > 0 ? pass("PCI links run as they can")
                              : unknown("the system does not show the speed of PCI links");
    }
    return fail(links.slow[0], "")
        .with_detail(joined({links.slow.begin() + 1, links.slow.end()}, "; ") +
                     (links.slow.size() > 1 ? "; " : "") +
                     "seat the card anew, or another slot; BIOS: bifurcation, speed");
}

Result pci_iommu(const Machine& machine)
{
    std::vector<std::string> translated;
    std::vector<Evidence> evidence;
    std::vector<std::string> addresses;
    for (const Hca& hca : machine.hcas) {
        addresses.push_back(hca.pci.address);
    }
    for (const Gpu& gpu : machine.gpus) {
        addresses.push_back(gpu.pci.address);
    }
    for (const std::string& address : addresses) {
        const Path group = directory_of(address) / "iommu_group";
        if (address.empty() || !machine.root.exists(group)) {
            continue;
        }
        const Path file = group / "type";
        const std::string type = machine.root.line(file);
        if (type.empty()) {
            return unreadable(file, machine.root.read(file).error);
        }
        if (type.starts_with("DMA")) {
            translated.push_back(address);
            evidence.push_back({file, type});
        }
    }
    if (addresses.empty()) {
        return skipped("there is neither HCA nor GPU");
    }
    if (translated.empty()) {
        return pass("no IOMMU translates what the devices send each other");
    }
    Result result =
        fail("the IOMMU translates accesses of " + joined(translated, ", ") +
                 ": traffic between GPU and HCA goes through the root complex",
             "sed -i 's/^GRUB_CMDLINE_LINUX=\"/&iommu=pt /' /etc/default/grub && update-grub");
    result.detail = "then reboot; in a virtual machine the host decides";
    result.evidence = evidence;
    result.needs_root = true;
    return result;
}

Result gpu_near_hca(const Machine& machine)
{
    std::vector<std::string> far;
    bool is_unknown = false;
    if (pairs(machine).empty()) {
        return skipped("there is no GPU with a usable HCA");
    }
    const std::vector<Served> map = served(machine);
    for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
        is_unknown |= map[gpu].distance == Distance::unknown;
        if (map[gpu].distance == Distance::far) {
            far.push_back("GPU " + std::to_string(gpu) + " (" + machine.gpus[gpu].pci.address +
                          ") has no HCA on its NUMA node");
        }
    }
    if (!far.empty()) {
        return fail(far[0], "")
            .with_detail(far.size() > 1 ? joined({far.begin() + 1, far.end()}, "; ")
                                        : "take another GPU, or another slot for the HCA");
    }
    if (is_unknown) {
        return unknown("the system shows no distance between GPU and HCA, as in virtual machines");
    }
    return pass("each GPU has an HCA near it");
}

} // namespace gdr::doctor
