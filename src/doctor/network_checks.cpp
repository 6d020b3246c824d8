// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Checks of the networks behind the ports.
#include "doctor/checks.hpp"

#include "doctor/text.hpp"

#include <cstdlib>
#include <functional>
#include <tuple>

namespace gdr::doctor {
namespace {

constexpr unsigned long kMtuForFullPackets = 4200; // an active MTU of 4096 and the headers

struct Gid {
    std::string index;
    std::string address;
    bool is_v2 = false;
    std::string interface; // empty: unknown, or of another network namespace

    bool is_link_local() const { return address.starts_with("fe80:"); }
    bool is_ipv4() const { return address.starts_with("0000:0000:0000:0000:0000:ffff:"); }
    // As gdr chooses: the highest (src/verbs/gid.hpp).
    auto rank() const
    {
        return std::make_tuple(!interface.empty(), is_v2, is_ipv4(), !is_link_local());
    }
};

// The GID that gdr takes; its index is empty if there is none.
Gid chosen_gid(const Machine& machine, const Port& port)
{
    Gid best;
    const std::string wanted = machine.settings.value("UCX_GDR_RC_GID_INDEX");
    for (const std::string& index : machine.root.list(port.directory / "gids")) {
        Gid gid;
        gid.index = index;
        gid.address = machine.root.line(port.directory / "gids" / index);
        if (gid.address.find_first_not_of("0:") == std::string::npos) {
            continue;
        }
        gid.is_v2 = machine.root.line(port.directory / "gid_attrs/types" / index) == "RoCE v2";
        gid.interface = machine.root.line(port.directory / "gid_attrs/ndevs" / index);
        if (index == wanted) {
            return gid;
        }
        if (best.index.empty() || gid.rank() > best.rank() ||
            (gid.rank() == best.rank() && std::stoi(index) < std::stoi(best.index))) {
            best = gid;
        }
    }
    return best;
}

// Looks at each active port of HCAs that gdr would use. look: adds what is wrong.
Result for_ports(const Machine& machine, bool ethernet, const std::string& good,
                 const std::function<void(const Port&, std::vector<std::string>*, Result*)>& look)
{
    std::vector<std::string> faults;
    Result result = fail("", "");
    bool any = false;
    for (const Hca& hca : machine.hcas) {
        for (const Port& port : hca.ports) {
            const bool is_of_kind = port.is_ethernet() == ethernet;
            if (hca.refusal.empty() && is_of_kind && (port.is_active() || !ethernet)) {
                any = true;
                look(port, &faults, &result);
            }
        }
    }
    if (!any) {
        return skipped(ethernet ? "there is no active RoCE port" : "there is no InfiniBand port");
    }
    if (faults.empty()) {
        return pass(good);
    }
    result.summary = faults[0];
    result.detail = joined({faults.begin() + 1, faults.end()}, "; ");
    return result;
}

} // namespace

Result roce_gid(const Machine& machine)
{
    return for_ports(
        machine, true, "RoCE ports have a routable address",
        [&](const Port& port, std::vector<std::string>* faults, Result* result) {
            const Gid gid = chosen_gid(machine, port);
            if (gid.index.empty()) {
                faults->push_back(port.name +
                                  " has no GID: its network interface is down or has no address");
                result->fix = "ip address";
                result->consequence = Consequence::no_gpudirect;
            } else if (gid.interface.empty()) {
                faults->push_back(port.name +
                                  " has no GID of an interface of this network namespace");
                result->fix = machine.in_container ? "docker run --network=host ..." : "ip link";
                result->consequence = Consequence::no_gpudirect;
            } else if (!gid.is_v2) {
                faults->push_back(port.name + " uses GID " + gid.index +
                                  " of RoCE v1, which is not routable");
                result->fix = "show_gids";
            } else if (gid.is_link_local()) {
                faults->push_back(port.name + " uses GID " + gid.index +
                                  ", a link-local address: " + gid.interface + " has no other");
                result->fix = "ip address add ADDRESS/24 dev " + gid.interface;
                result->needs_root = true;
            }
            result->evidence.push_back({port.directory / "gids" / gid.index, gid.address});
        });
}

Result roce_mtu(const Machine& machine)
{
    return for_ports(
        machine, true, "packets of RoCE ports are large",
        [&](const Port& port, std::vector<std::string>* faults, Result* result) {
            const std::string interface = chosen_gid(machine, port).interface;
            const Path file = Path("/sys/class/net") / interface / "mtu";
            const std::string mtu = interface.empty() ? "" : machine.root.line(file);
            if (!mtu.empty() && std::strtoul(mtu.c_str(), nullptr, 10) < kMtuForFullPackets) {
                faults->push_back(port.name + ": " + interface + " has an MTU of " + mtu +
                                  ", so RoCE's packets are shorter than 4096 bytes");
                result->fix =
                    "ip link set " + interface + " mtu " + std::to_string(kMtuForFullPackets);
                result->needs_root = true;
                result->evidence.push_back({file, mtu});
            }
        });
}

Result subnet_manager(const Machine& machine)
{
    return for_ports(machine, false, "a subnet manager serves the InfiniBand ports",
                     [&](const Port& port, std::vector<std::string>* faults, Result* result) {
                         const Path file = port.directory / "sm_lid";
                         const std::string lid = machine.root.line(file);
                         if (lid == "0x0") {
                             faults->push_back(port.name + " knows no subnet manager");
                             result->fix = "systemctl start opensm";
                             result->needs_root = true;
                             result->evidence.push_back({file, lid});
                             if (any_usable(machine.hcas)) {
                                 result->consequence = Consequence::loss;
                             }
                         }
                     });
}

Result link_errors(const Machine& machine)
{
    return for_ports(machine, false, "InfiniBand ports count no errors",
                     [&](const Port& port, std::vector<std::string>* faults, Result* result) {
                         for (const char* name :
                              {"symbol_error", "link_error_recovery", "link_downed",
                               "port_rcv_errors", "local_link_integrity_errors"}) {
                             const Path file = port.directory / "counters" / name;
                             const std::string count = machine.root.line(file);
                             if (!count.empty() && count != "0") {
                                 faults->push_back(port.name + " counted " + count + " of " + name);
                                 result->evidence.push_back({file, count});
                                 result->fix = "perfquery -x";
                             }
                         }
                     });
}

} // namespace gdr::doctor
