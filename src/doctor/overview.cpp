// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Writing the overview.
#include "doctor/overview.hpp"

#include "doctor/finding_text.hpp"
#include "doctor/topology.hpp"

namespace gdr::doctor {
namespace {

std::string line(const std::string& what, const std::string& text)
{
    return padded(what, kWordWidth) + text + "\n";
}

std::string hcas_of(const Machine& machine)
{
    std::string text;
    for (const Hca& hca : machine.hcas) {
        for (const Port& port : hca.ports) {
            text += line("HCA", port.name + " " + port.link_layer + ", " + port.rate + ", " +
                                    port.state + (hca.is_usable() ? "" : ", not usable"));
        }
    }
    return text.empty() ? line("HCA", "none") : text;
}

std::string driver_of(const GpuDriver& driver)
{
    return "NVIDIA " + driver.version + (driver.is_open ? ", open" : ", closed") +
           " kernel modules, nvidia-peermem " + (driver.has_peermem ? "loaded" : "not loaded");
}

} // namespace

std::string ucx_of(const Machine& machine)
{
    const std::string& version = machine.root.facts().ucx_version;
    const Path& libucp = machine.ucx.libucp;
    return libucp.empty() ? "none is found"
                          : (version.empty() ? "" : version + ", ") + libucp.native();
}

std::string overview_of(const Machine& machine)
{
    const Mpi& mpi = machine.mpi;
    std::string text = line("UCX", ucx_of(machine));
    text += line("MPI", mpi.kind == MpiKind::none
                            ? "none"
                            : std::string(name_of(mpi.kind)) + ", " +
                                  (mpi.launcher.empty() ? mpi.library : mpi.launcher).native());
    text += hcas_of(machine);
    text +=
        line("driver", machine.driver.is_loaded ? driver_of(machine.driver) : "none of NVIDIA's");
    for (const std::string& gpu : map_of(machine)) {
        text += gpu + "\n";
    }
    return text;
}

} // namespace gdr::doctor
