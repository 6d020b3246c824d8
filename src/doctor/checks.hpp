// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The checks. Each looks at one thing that GPUDirect RDMA needs, and changes nothing.
#pragma once

#include "doctor/finding.hpp"
#include "doctor/machine.hpp"

#include <span>

namespace gdr::doctor {

struct Check {
    const char* id;
    Consequence consequence; // of a failure, where the check does not say another
    Result (*look)(const Machine& machine);
};

// In the order of the report: from the device to the program.
std::span<const Check> all_checks();

// kernel_checks.cpp: the kernel.
Result sysfs_is_mounted(const Machine& machine);
Result kernel_dmabuf(const Machine& machine);

// hca_checks.cpp: HCAs, as far as they can be judged without opening one.
Result hca_is_there(const Machine& machine);
Result hca_is_supported(const Machine& machine);
Result hca_has_active_port(const Machine& machine);
Result hca_has_uverbs(const Machine& machine);
Result hca_may_be_opened(const Machine& machine);

// emulation_checks.cpp: emulated devices, which are not the real thing.
Result hca_is_real(const Machine& machine);
Result gpu_is_real(const Machine& machine);
Result gpu_runtime(const Machine& machine);

// gpu_checks.cpp: GPUs and their driver.
Result gpu_driver(const Machine& machine);
Result gpu_device_files(const Machine& machine);
Result gpu_library(const Machine& machine);
Result gpu_open_modules(const Machine& machine);
Result gpu_aperture(const Machine& machine);

// pci_checks.cpp: the way between GPU and HCA.
Result pci_links(const Machine& machine);
Result pci_iommu(const Machine& machine);
Result gpu_near_hca(const Machine& machine);

// limit_checks.cpp: limits of the process.
Result locked_memory(const Machine& machine);
Result descriptors(const Machine& machine);
Result shared_memory(const Machine& machine);

// container_checks.cpp: containers.
Result container_devices(const Machine& machine);

// network_checks.cpp: the networks behind the ports.
Result roce_gid(const Machine& machine);
Result roce_mtu(const Machine& machine);
Result subnet_manager(const Machine& machine);
Result link_errors(const Machine& machine);

// ucx_checks.cpp: UCX and its settings.
Result ucx_is_found(const Machine& machine);
Result ucx_files(const Machine& machine);
Result ucx_environment(const Machine& machine);
Result other_ucx(const Machine& machine);

// mpi_checks.cpp: the MPI and its settings.
Result mpi_layer(const Machine& machine);
Result mpi_with_ucx(const Machine& machine);
Result mpi_component_path(const Machine& machine);

// launch_checks.cpp: what starts the command, and whether gdr comes with it.
Result command_is_found(const Machine& machine);
Result command_gets_gdr(const Machine& machine);

// process_checks.cpp: memory hooks, fork, processors.
Result memory_hooks(const Machine& machine);
Result fork_is_safe(const Machine& machine);
Result processor_speed(const Machine& machine);

} // namespace gdr::doctor
