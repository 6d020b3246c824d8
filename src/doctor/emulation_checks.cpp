// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Checks for emulated devices, which move no bytes between machines.
#include "doctor/checks.hpp"

#include "doctor/reader/text.hpp"

namespace gdr::doctor {
namespace {

// Whether "ucx-gdr run" emulates what is not there.
bool emulates_what_is_missing(const Command& command)
{
    const std::string wish = command.variable("GDR_EMULATION");
    return command.by_ucx_gdr && wish != "n" && wish != "no" && wish != "off" && wish != "0";
}

} // namespace

Result hca_is_real(const Machine& machine)
{
    if (machine.has_emulated_hcas()) {
        return fail("the HCA is an emulated one", "unset LD_PRELOAD")
            .seen_in("LD_PRELOAD", machine.command.variable("LD_PRELOAD"));
    }
    if (machine.command.emulation.find("--emulate-hca") != std::string::npos) {
        return fail("the HCA is an emulated one, which the command asks for (--emulate-hca)", "");
    }
    if (!any_usable(machine.hcas) && emulates_what_is_missing(machine.command)) {
        return fail("ucx-gdr run emulates an HCA here, as there is no usable one",
                    "export GDR_EMULATION=no");
    }
    return machine.hcas.empty() ? skipped("there is no HCA") : pass("the HCA is not emulated");
}

Result gpu_is_real(const Machine& machine)
{
    if (machine.has_emulated_gpus()) {
        return fail("the GPUs are emulated: libcuda.so.1 is " + machine.libcuda.native(),
                    "unset LD_LIBRARY_PATH")
            .seen_in("LD_LIBRARY_PATH", machine.command.variable("LD_LIBRARY_PATH"));
    }
    if (machine.command.emulation.find("--emulate-gpu") != std::string::npos) {
        return fail("the GPUs are emulated, which the command asks for (--emulate-gpu)", "");
    }
    const bool usable =
        machine.driver.is_loaded && machine.driver.has_gpu_file && !machine.libcuda.empty();
    if (!usable && emulates_what_is_missing(machine.command)) {
        return fail("ucx-gdr run emulates GPUs here, as there is no usable one",
                    "export GDR_EMULATION=no");
    }
    return machine.gpus.empty() ? skipped("there is no GPU") : pass("the GPUs are not emulated");
}

Result gpu_runtime(const Machine& machine)
{
    if (!machine.command.elf || !machine.command.elf->has_device_code) {
        return skipped("there is no COMMAND compiled by nvcc");
    }
    if (machine.command.elf->needs("libcudart.so")) {
        return pass("the command loads the CUDA runtime, which can be an emulated one");
    }
    Result result = fail(machine.command.name +
                             " has NVIDIA's CUDA runtime inside, which emulated GPUs do not serve",
                         "nvcc -cudart shared ...");
    if (gpu_is_real(machine).status != Status::fail) {
        result.consequence = Consequence::none;
    }
    return result;
}

} // namespace gdr::doctor
