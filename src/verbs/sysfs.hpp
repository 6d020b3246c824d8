// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What sysfs shows of an HCA, and the verbs do not tell.
#pragma once

#include <filesystem>
#include <string>

namespace gdr::verbs {

class Sysfs {
  public:
    Sysfs() = default;
    // directory: "/sys/class/infiniband/mlx5_0", as libibverbs names it; it may be missing, as that
    // of an emulated HCA.
    explicit Sysfs(std::filesystem::path directory) : directory_(std::move(directory)) {}

    bool exists() const;

    // "0000:3b:00.0": of the HCA, or of the nearest device above it that is on a PCI bus. A
    // sub-function is an auxiliary device below its HCA's. The domains of VMD have five digits and
    // are for no other than Linux: what is in them is where their VMD is. Empty: there is none.
    std::string pci_bus_id() const;

    // Gb/s of a port; 0: unknown.
    double rate(unsigned port) const;

    // Whether the kernel shows to which network interfaces the GIDs of a port belong.
    bool shows_interfaces(unsigned port) const;

    // That of a GID; empty: it has none that is up.
    std::string interface(unsigned port, int gid_index) const;

    // How many links a GID's network interface spreads its packets over: those of a bond that uses
    // all of them at once; 1: of no such bond.
    unsigned links(unsigned port, int gid_index) const;

    // Whether it is the way to the NVSwitches of this machine, by which they are managed, and not
    // to other machines. Only root can read the first place that tells.
    bool manages_switches() const;

  private:
    std::filesystem::path port(unsigned number) const;

    std::filesystem::path directory_;
};

} // namespace gdr::verbs
