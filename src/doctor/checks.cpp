// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The table of checks.
#include "doctor/checks.hpp"

namespace gdr::doctor {
namespace {

using enum Consequence;

constexpr Check kChecks[] = {
    {"kernel.sysfs", cannot_run, sysfs_is_mounted},
    {"hca.none", no_gpudirect, hca_is_there},
    {"hca.emulated", no_gpudirect, hca_is_real},
    {"hca.provider", no_gpudirect, hca_is_supported},
    {"hca.port", no_gpudirect, hca_has_active_port},
    {"hca.uverbs", no_gpudirect, hca_has_uverbs},
    {"hca.perm", no_gpudirect, hca_may_be_opened},
    {"gpu.driver", no_gpudirect, gpu_driver},
    {"gpu.emulated", no_gpudirect, gpu_is_real},
    {"gpu.dev", no_gpudirect, gpu_device_files},
    {"gpu.lib", no_gpudirect, gpu_library},
    {"gpu.modules-closed", no_gpudirect, gpu_open_modules},
    {"gpu.bar1", loss, gpu_aperture},
    {"gpu.cudart", cannot_run, gpu_runtime},
    {"kernel.dmabuf", loss, kernel_dmabuf},
    {"pci.link", loss, pci_links},
    {"pci.iommu", loss, pci_iommu},
    {"topo.far", loss, gpu_near_hca},
    {"limits.memlock", no_gpudirect, locked_memory},
    {"limits.nofile", loss, descriptors},
    {"limits.shm", loss, shared_memory},
    {"ct.devices", no_gpudirect, container_devices},
    {"roce.gid", loss, roce_gid},
    {"roce.mtu", loss, roce_mtu},
    {"ib.sm", no_gpudirect, subnet_manager},
    {"ib.counters", loss, link_errors},
    {"ucx.found", cannot_run, ucx_is_found},
    {"ucx.conf", loss, ucx_files},
    {"ucx.env", loss, ucx_environment},
    {"ucx.other", loss, other_ucx},
    {"mpi.pml", no_gpudirect, mpi_layer},
    {"mpi.noucx", no_gpudirect, mpi_with_ucx},
    {"mpi.paths", loss, mpi_component_path},
    {"launch.command", cannot_run, command_is_found},
    {"launch.preload", no_gpudirect, command_gets_gdr},
    {"mem.hooks", loss, memory_hooks},
    {"fork", loss, fork_is_safe},
    {"cpu.power", loss, processor_speed},
};

} // namespace

std::span<const Check> all_checks()
{
    return kChecks;
}

} // namespace gdr::doctor
