// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Checks of the kernel.
#include "doctor/checks.hpp"

#include "doctor/gzip.hpp"
#include "doctor/reader/text.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace gdr::doctor {
namespace {

constexpr const char* kPackedConfig = "/proc/config.gz";

} // namespace

Result sysfs_is_mounted(const Machine& machine)
{
    if (machine.root.exists("/sys/devices/system/cpu")) {
        return pass("/sys is mounted");
    }
    return fail("/sys is not mounted: UCX aborts in most programs", "mount -t sysfs sysfs /sys")
        .by_root();
}

Result kernel_dmabuf(const Machine& machine)
{
    std::string file = "/boot/config-" + machine.root.facts().kernel;
    auto config = machine.root.read(file);
    if (!config && machine.root.exists(kPackedConfig)) {
        file = kPackedConfig;
        config = machine.root.read(file);
        config.text = unpacked(config.text);
        if (config.text.empty()) {
            return unknown(file + " cannot be unpacked");
        }
    }
    if (!config) {
        return unreadable(file, config.error);
    }
    const auto options = lines(config.text);
    std::vector<std::string> missing;
    for (const char* option : {"CONFIG_DMA_SHARED_BUFFER=y", "CONFIG_PCI_P2PDMA=y"}) {
        if (std::ranges::find(options, option) == options.end()) {
            missing.emplace_back(option);
        }
    }
    if (missing.empty()) {
        return pass("the kernel was built for dmabuf between PCI devices");
    }
    return fail("the kernel was built without " + joined(missing, ", ") +
                    ": no dmabuf of GPU memory",
                machine.driver.has_peermem ? "" : "modprobe nvidia_peermem")
        .with_detail(machine.driver.has_peermem ? "nvidia_peermem is loaded and serves instead"
                                                : "")
        .by_root()
        .seen_in(file, "not there: " + joined(missing, ", "));
}

} // namespace gdr::doctor
