// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Checks of GPUs and their driver.
#include "doctor/checks.hpp"

#include "doctor/reader/text.hpp"

#include <cstdlib>

namespace gdr::doctor {
namespace {

constexpr int kFirstWithDmabuf = 515;
constexpr uint64_t kSmallAperture = 1ull << 30;
constexpr const char* kVersion = "/proc/driver/nvidia/version";

} // namespace

Result gpu_driver(const Machine& machine)
{
    if (!machine.driver.is_loaded) {
        if (machine.gpus.empty()) {
            return fail("no NVIDIA GPU, and NVIDIA's kernel driver is not loaded", "")
                .seen_in(kVersion, "");
        }
        return fail("NVIDIA's kernel driver is not loaded, though there is a GPU (" +
                        machine.gpus[0].pci.address + ")",
                    "modprobe nvidia")
            .by_root()
            .seen_in(kVersion, "");
    }
    if (machine.driver.version.empty()) {
        return unknown(std::string(kVersion) + " does not tell a version");
    }
    if (std::atoi(machine.driver.version.c_str()) < kFirstWithDmabuf) {
        return fail("driver " + machine.driver.version + " exports no dmabuf, which came with 515",
                    machine.driver.has_peermem ? "" : "modprobe nvidia_peermem")
            .by_root()
            .as(Consequence::loss)
            .seen_in(kVersion, machine.driver.version);
    }
    return pass("driver " + machine.driver.version).seen_in(kVersion, machine.driver.version);
}

Result gpu_device_files(const Machine& machine)
{
    if (!machine.driver.is_loaded) {
        return skipped("NVIDIA's driver is not loaded");
    }
    std::vector<std::string> missing;
    if (!machine.driver.has_gpu_file) {
        missing.emplace_back("/dev/nvidia0");
    }
    for (const char* file : {"/dev/nvidiactl", "/dev/nvidia-uvm"}) {
        if (!machine.root.exists(file)) {
            missing.emplace_back(file);
        }
    }
    if (missing.empty()) {
        return pass("the GPUs' device files are there");
    }
    return fail(joined(missing, ", ") + (missing.size() == 1 ? " is missing" : " are missing"),
                machine.in_container ? "docker run --gpus all ..." : "nvidia-modprobe -c 0 -u")
        .by_root();
}

Result gpu_library(const Machine& machine)
{
    if (!machine.driver.is_loaded) {
        return skipped("NVIDIA's driver is not loaded");
    }
    if (machine.libcuda.empty()) {
        return fail("libcuda.so.1 is not found: install the driver's user-space part, or set "
                    "LD_LIBRARY_PATH",
                    "ldconfig")
            .by_root();
    }
    return pass("libcuda.so.1 is " + machine.libcuda.native());
}

Result gpu_open_modules(const Machine& machine)
{
    if (!machine.driver.is_loaded) {
        return skipped("NVIDIA's driver is not loaded");
    }
    if (machine.driver.is_open) {
        return pass("NVIDIA's open kernel modules, which export dmabuf");
    }
    if (machine.driver.has_peermem) {
        return fail("NVIDIA's kernel modules are not the open ones: memory of cudaMallocAsync is "
                    "staged",
                    "")
            .with_detail("nvidia_peermem is loaded and serves other memory; install the -open "
                         "variant of the driver")
            .as(Consequence::loss);
    }
    return fail("NVIDIA's kernel modules are not the open ones, which dmabuf needs",
                "modprobe nvidia_peermem")
        .with_detail("or install the -open variant of the driver")
        .by_root();
}

Result gpu_aperture(const Machine& machine)
{
    std::vector<std::string> small;
    bool any = false;
    for (const Gpu& gpu : machine.gpus) {
        any |= gpu.bar1.has_value();
        if (gpu.bar1 && *gpu.bar1 < kSmallAperture) {
            small.push_back("GPU " + gpu.pci.address + " shows " + bytes(*gpu.bar1) + " (BAR1)");
        }
    }
    if (machine.gpus.empty()) {
        return skipped("there is no GPU");
    }
    if (!any) {
        return unknown("the system does not show the GPUs' BAR1");
    }
    if (small.empty()) {
        return pass("the GPUs' BAR1 is large");
    }
    return fail(small[0] + " of its memory to HCAs: larger buffers are staged", "")
        .with_detail(joined({small.begin() + 1, small.end()}, "; ") +
                     (small.size() > 1 ? "; " : "") +
                     "BIOS: \"above 4G decoding\", \"resizable BAR\"");
}

} // namespace gdr::doctor
