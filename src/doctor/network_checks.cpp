// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Checks of the networks behind the ports.
#include "doctor/checks.hpp"

#include "doctor/reader/text.hpp"

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

// What a check sees of ports.
struct Ports {
    std::vector<std::string> faults;
    std::vector<std::string> unseen; // files that are not there, or not readable
    Result result = fail("", "");

    // A file's line, which has to be there.
    std::string line(const Root& root, const Path& file)
    {
        std::string line = root.line(file);
        if (line.empty()) {
            unseen.push_back(file);
        }
        return line;
    }
};

// Looks at each port of the kind of HCAs that gdr would use; at RoCE ports that are not active, and
// have no address therefore, it does not.
Result for_ports(const Machine& machine, bool ethernet, const std::string& good,
                 const std::function<void(const Port&, Ports*)>& look)
{
    Ports ports;
    bool any = false;
    for (const Hca& hca : machine.hcas) {
        for (const Port& port : hca.ports) {
            if (hca.refusal.empty() && port.is_ethernet() == ethernet &&
                (port.is_active() || !ethernet)) {
                any = true;
                look(port, &ports);
            }
        }
    }
    if (!any) {
        return skipped(ethernet ? "there is no active RoCE port" : "there is no InfiniBand port");
    }
    if (ports.faults.empty()) {
        return ports.unseen.empty() ? pass(good)
                                    : unknown("the system does not show " + ports.unseen[0]);
    }
    ports.result.summary = ports.faults[0];
    ports.result.detail = joined({ports.faults.begin() + 1, ports.faults.end()}, "; ");
    return ports.result;
}

} // namespace

Result roce_gid(const Machine& machine)
{
    return for_ports(
        machine, true, "RoCE ports have a routable address", [&](const Port& port, Ports* ports) {
            const Gid gid = chosen_gid(machine, port);
            if (gid.index.empty()) {
                ports->faults.push_back(
                    port.name + " has no GID: its network interface is down or has no address");
                ports->result.fix = "ip address";
                ports->result.consequence = Consequence::no_gpudirect;
            } else if (gid.interface.empty()) {
                ports->faults.push_back(port.name +
                                        " has no GID of an interface of this network namespace");
                ports->result.fix =
                    machine.in_container ? "docker run --network=host ..." : "ip link";
                ports->result.consequence = Consequence::no_gpudirect;
            } else if (!gid.is_v2) {
                ports->faults.push_back(port.name + " uses GID " + gid.index +
                                        " of RoCE v1, which is not routable");
                ports->result.fix = "show_gids";
            } else if (gid.is_link_local()) {
                ports->faults.push_back(port.name + " uses GID " + gid.index +
                                        ", a link-local address: " + gid.interface +
                                        " has no other");
                ports->result.fix = "ip address add ADDRESS/24 dev " + gid.interface;
                ports->result.needs_root = true;
            }
            ports->result.evidence.push_back({port.directory / "gids" / gid.index, gid.address});
        });
}

Result roce_mtu(const Machine& machine)
{
    return for_ports(
        machine, true, "packets of RoCE ports are large", [&](const Port& port, Ports* ports) {
            const std::string interface = chosen_gid(machine, port).interface;
            const Path file = Path("/sys/class/net") / interface / "mtu";
            const std::string mtu = interface.empty() ? "" : ports->line(machine.root, file);
            if (!mtu.empty() && std::strtoul(mtu.c_str(), nullptr, 10) < kMtuForFullPackets) {
                ports->faults.push_back(port.name + ": " + interface + " has an MTU of " + mtu +
                                        ", so RoCE's packets are shorter than 4096 bytes");
                ports->result.fix =
                    "ip link set " + interface + " mtu " + std::to_string(kMtuForFullPackets);
                ports->result.needs_root = true;
                ports->result.evidence.push_back({file, mtu});
            }
        });
}

Result subnet_manager(const Machine& machine)
{
    return for_ports(machine, false, "a subnet manager serves the InfiniBand ports",
                     [&](const Port& port, Ports* ports) {
                         const Path file = port.directory / "sm_lid";
                         const std::string lid = ports->line(machine.root, file);
                         if (lid == "0x0") {
                             ports->faults.push_back(port.name + " knows no subnet manager");
                             ports->result.fix = "systemctl start opensm";
                             ports->result.needs_root = true;
                             ports->result.evidence.push_back({file, lid});
                             if (any_usable(machine.hcas)) {
                                 ports->result.consequence = Consequence::loss;
                             }
                         }
                     });
}

Result link_errors(const Machine& machine)
{
    return for_ports(
        machine, false, "InfiniBand ports count no errors", [&](const Port& port, Ports* ports) {
            for (const char* name : {"symbol_error", "link_error_recovery", "link_downed",
                                     "port_rcv_errors", "local_link_integrity_errors"}) {
                const Path file = port.directory / "counters" / name;
                const std::string count = ports->line(machine.root, file);
                if (!count.empty() && count != "0") {
                    ports->faults.push_back(port.name + " counted " + count + " of " + name);
                    ports->result.evidence.push_back({file, count});
                    ports->result.fix = "perfquery -x";
                }
            }
        });
}

} // namespace gdr::doctor
