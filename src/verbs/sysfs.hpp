// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Facts about an HCA that sysfs shows and the verbs do not.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace gdr::verbs {

// In the description or the VPD of a device that serves to manage NVSwitches.
inline constexpr std::string_view kSwitchManagement = "SW_MNG";

class Sysfs {
  public:
    Sysfs() = default;
    // directory: "/sys/class/infiniband/mlx5_0", as libibverbs names it; it may be missing, as for
    // an emulated HCA.
    explicit Sysfs(std::filesystem::path directory) : directory_(std::move(directory)) {}

    bool exists() const;

    // Leads to the device that the HCA is a function of.
    std::filesystem::path device() const { return directory_ / "device"; }

    // The PCI address, "0000:3b:00.0", of the HCA or of the nearest PCI device above it: a
    // sub-function is an auxiliary device below its HCA. VMD domains have five digits, which only
    // Linux uses, so a device below a VMD has the address of its VMD. Empty: there is none.
    std::string pci_bus_id() const;

    // Gb/s of a port; 0: unknown.
    double rate(unsigned port) const;

    // Whether the kernel shows the network interfaces of a port's GIDs.
    bool shows_interfaces(unsigned port) const;

    // The network interface of a GID; empty: none that is up.
    std::string interface(unsigned port, int gid_index) const;

    // How many links carry the packets of a GID's network interface: the number of links of a bond
    // that uses all of them at once, else 1.
    unsigned links(unsigned port, int gid_index) const;

    // Whether the device serves to manage this machine's NVSwitches and does not lead to other
    // machines. Only root can read the VPD, the second place that tells.
    bool manages_switches() const;

  private:
    std::filesystem::path port(unsigned number) const;

    std::filesystem::path directory_;
};

} // namespace gdr::verbs
