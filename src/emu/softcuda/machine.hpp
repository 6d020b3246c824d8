// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The emulated machine, as the driver and the management library both know it: so many GPUs
// (SOFTCUDA_DEVICES), or those of a dump of "ucx-gdr doctor" (GDR_MACHINE).
#pragma once

#include <string>

namespace softcuda {

struct PciAddress {
    unsigned domain, bus, device;

    bool operator==(const PciAddress&) const = default;
};

int devices_of_machine();

/// By their numbers, from 0.
PciAddress pci_address_of(int number);
std::string model_of(int number);

/// Of the device at a PCI address, "0000:3b:00.0"; -1: there is none.
int number_at(const char* pci_address);

} // namespace softcuda
