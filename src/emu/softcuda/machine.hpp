// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The emulated machine, as the driver and the management library both know it.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace softcuda {

/// The PCI domain of the emulated devices: none that a machine uses, so that nobody takes them for
/// devices in sysfs. Their bus numbers begin with 1.
inline constexpr int kPciDomain = 0xc0da;

inline constexpr int kMostDevices = 16;

inline int devices_of_machine()
{
    const char* text = std::getenv("SOFTCUDA_DEVICES");
    return text == nullptr ? 2 : std::clamp(std::atoi(text), 0, kMostDevices);
}

} // namespace softcuda
