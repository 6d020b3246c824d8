// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCX_GDR_IPC and UCX_GDR_IPC_*.
#pragma once

#include "abi/options.hpp"

namespace gdr::ipc {

// Also read before there is a memory domain: query_md_resources().
inline constexpr char kSwitch[] = "GDR_IPC";

struct MdSettings {
    abi::MdConfig base;
    int enabled;       // boolean
    size_t cache_size; // bytes
};

struct IfaceSettings {
    abi::IfaceConfig base;
    size_t bandwidth; // bytes per second; abi::kAutoSize
    double overhead;  // seconds
    double latency;   // seconds
};

abi::OptionTable md_options();
abi::OptionTable iface_options();

} // namespace gdr::ipc
