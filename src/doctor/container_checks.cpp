// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Checks of containers.
#include "doctor/checks.hpp"

#include "doctor/reader/text.hpp"

namespace gdr::doctor {

Result container_devices(const Machine& machine)
{
    if (!machine.in_container) {
        return skipped("this is no container");
    }
    std::vector<std::string> missing;
    std::string fix = "docker run";
    if (!machine.hcas.empty() && !machine.has_emulated_hcas() &&
        machine.root.list("/dev/infiniband").empty()) {
        missing.emplace_back("/dev/infiniband");
        fix += " --device=/dev/infiniband";
    }
    if (machine.driver.is_loaded && !machine.root.exists("/dev/nvidiactl")) {
        missing.emplace_back("/dev/nvidia*");
        fix += " --gpus all";
    }
    if (missing.empty()) {
        return pass("the container has the devices that the kernel shows");
    }
    return fail("the host has devices that this container lacks: " + joined(missing, ", "),
                fix + " ...")
        .with_detail("podman: --device nvidia.com/gpu=all; apptainer: --nv --bind /dev/infiniband");
}

} // namespace gdr::doctor
