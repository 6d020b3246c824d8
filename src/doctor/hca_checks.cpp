// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Checks of HCAs. A fault of one is no fault of the machine while gdr can use another.
#include "doctor/checks.hpp"

#include "doctor/reader/text.hpp"

namespace gdr::doctor {
namespace {

constexpr const char* kMellanox = "0x15b3";

// Those HCAs whose fault is worth telling: gdr would use them.
bool is_wanted(const Hca& hca)
{
    return hca.refusal.empty();
}

Result judged(const Machine& machine, const std::vector<std::string>& faults,
              const std::string& good, const std::string& fix)
{
    if (machine.hcas.empty()) {
        return skipped("there is no HCA");
    }
    if (faults.empty()) {
        return pass(good);
    }
    Result result = fail(faults[0], fix);
    result.detail = joined({faults.begin() + 1, faults.end()}, "; ");
    if (any_usable(machine.hcas)) {
        result.consequence = Consequence::none;
    }
    return result;
}

// What may deny an open that the file's mode allows; empty: nothing is known.
std::string possible_denial(const Machine& machine)
{
    const std::string label = trimmed(machine.root.line("/proc/self/attr/current"));
    if (label.ends_with("(enforce)")) {
        return "AppArmor's profile " + label.substr(0, label.rfind(' '));
    }
    if (machine.root.line("/sys/fs/selinux/enforce") == "1" &&
        label.find("unconfined") == std::string::npos) {
        return "SELinux, for " + label;
    }
    return machine.in_container ? "the container's rules for devices" : "";
}

} // namespace

Result hca_is_there(const Machine& machine)
{
    if (!machine.hcas.empty()) {
        return pass(std::to_string(machine.hcas.size()) + " HCAs");
    }
    if (!machine.root.exists("/sys/class")) {
        return unknown("/sys is not mounted");
    }
    for (const std::string& address : machine.root.list("/sys/bus/pci/devices")) {
        if (machine.root.line(directory_of(address) / "vendor") == kMellanox) {
            return fail("no RDMA device, though there is an adapter (" + address +
                            "): its driver is not loaded",
                        "modprobe mlx5_ib")
                .by_root()
                .seen_in(directory_of(address) / "vendor", kMellanox);
        }
    }
    return fail("no RDMA device: /sys/class/infiniband is missing or empty", "")
        .with_detail(
            "this machine has no HCA, or its driver is not loaded, or the container has none")
        .seen_in("/sys/class/infiniband", "");
}

Result hca_is_supported(const Machine& machine)
{
    std::vector<std::string> faults;
    std::vector<std::string> notes;
    std::string instead;
    for (const Hca& hca : machine.hcas) {
        if (!is_wanted(hca)) {
            faults.push_back(hca.name + " is not used: " + hca.refusal);
            instead = hca.instead;
        } else if (hca.provider != nullptr && hca.provider->note != nullptr) {
            notes.push_back(hca.name + " (" + hca.provider->name + "): " + hca.provider->note);
        }
    }
    if (faults.empty() && !notes.empty()) {
        return fail(notes[0], "")
            .with_detail(joined({notes.begin() + 1, notes.end()}, "; "))
            .as(Consequence::none);
    }
    Result result = judged(machine, faults, "gdr knows no reason to leave an HCA out", "");
    if (result.status == Status::fail) {
        result.detail += (result.detail.empty() ? "use instead: " : "; use instead: ") + instead;
    }
    return result;
}

Result hca_has_active_port(const Machine& machine)
{
    std::vector<std::string> faults;
    std::string fix;
    for (const Hca& hca : machine.hcas) {
        for (const Port& port : hca.ports) {
            if (is_wanted(hca) && !port.is_active()) {
                faults.push_back(port.name + " is " +
                                 (port.state.empty() ? "in an unknown state" : port.state) +
                                 ", not ACTIVE: check cable, switch" +
                                 (port.is_ethernet() ? ", network interface" : ", subnet manager"));
                fix = "ibstat " + hca.name;
            }
        }
    }
    Result result = judged(machine, faults, "ports are ACTIVE", fix);
    for (const Hca& hca : machine.hcas) {
        for (const Port& port : hca.ports) {
            result.evidence.push_back({port.directory / "state", port.state});
        }
    }
    return result;
}

Result hca_has_uverbs(const Machine& machine)
{
    if (machine.has_emulated_hcas()) {
        return skipped("an emulated HCA has no device file");
    }
    std::vector<std::string> faults;
    std::string fix;
    for (const Hca& hca : machine.hcas) {
        if (!is_wanted(hca) || hca.has_uverbs_file) {
            continue;
        }
        if (hca.uverbs.empty()) {
            faults.push_back(hca.name + " has no uverbs device");
            fix = "modprobe ib_uverbs";
        } else {
            faults.push_back(hca.name + ": " + hca.uverbs + " is missing");
            fix = machine.in_container ? "podman run --device=/dev/infiniband ..."
                                       : "udevadm trigger";
        }
    }
    Result result = judged(machine, faults, "each HCA has its file in /dev/infiniband", fix);
    result.needs_root = result.status == Status::fail;
    return result;
}

Result hca_may_be_opened(const Machine& machine)
{
    std::vector<std::string> faults;
    std::string fix;
    for (const Hca& hca : machine.hcas) {
        if (is_wanted(hca) && hca.has_uverbs_file && !hca.may_use) {
            faults.push_back(hca.name + ": no permission for " + hca.uverbs);
            fix = "chmod 666 " + hca.uverbs;
        }
    }
    Result result = judged(machine, faults, "the device files may be opened", fix);
    const std::string denial = possible_denial(machine);
    if (result.status == Status::pass && !denial.empty()) {
        return unknown("the modes allow to open the device files; " + denial +
                       " may deny it: ucx-gdr info opens them");
    }
    result.needs_root = result.status == Status::fail;
    return result;
}

} // namespace gdr::doctor
