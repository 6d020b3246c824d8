// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Names, defaults and help texts.
#include "ipc/settings.hpp"

#include <cstddef>

namespace gdr::ipc {

abi::OptionTable md_options()
{
    return {
        .name = "gdr_ipc memory domain",
        .prefix = "GDR_",
        .options =
            {{"IPC", "y",
              "Copy between the GPUs of this host's processes by CUDA IPC where that is faster "
              "than\n"
              "the HCA. n: everything goes over the HCA.",
              offsetof(MdSettings, enabled), abi::OptionType::boolean},
             {"IPC_CACHE_SIZE", "32g",
              "How much memory of other processes of this host stays open while it is not in use.\n"
              "A GPU does not get back what is open when its owner frees it. Opening memory again\n"
              "takes 250 us.",
              offsetof(MdSettings, cache_size), abi::OptionType::memory_size}},
        .size = sizeof(MdSettings)};
}

// The times were measured between two NVIDIA H200 joined by NVLink (docs/results/cuda-ipc.md): from
// the call until its end is seen, 6.9 us for 8 bytes and 7.1 us for 64 KiB.
abi::OptionTable iface_options()
{
    return {
        .name = "gdr (CUDA IPC)",
        .prefix = "GDR_IPC_",
        .options =
            {{"BANDWIDTH", "auto",
              "Bytes per second between two GPUs of this host, for UCX's choice between CUDA IPC\n"
              "and the HCA. \"auto\": what NVML tells of the slowest link among the GPUs that the\n"
              "process sees.",
              offsetof(IfaceSettings, bandwidth), abi::OptionType::memory_size},
             {"OVERHEAD", "3.1us", "Time in which starting a copy keeps the CPU busy.",
              offsetof(IfaceSettings, overhead), abi::OptionType::duration},
             {"LATENCY", "3.8us",
              "Time from then on until a copy of a few bytes is seen to have ended.",
              offsetof(IfaceSettings, latency), abi::OptionType::duration}},
        .size = sizeof(IfaceSettings)};
}

} // namespace gdr::ipc
