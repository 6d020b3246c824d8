// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Drivers of HCAs, and what gdr can do with them (docs/reference/providers.md).
#pragma once

#include <string>

namespace gdr::doctor {

struct Provider {
    const char* driver; // as the kernel names the driver of the PCI device
    const char* name;   // of rdma-core
    bool is_used;
    const char* note; // why it is not used, or what is lost; null: nothing
    const char* instead;
};

// Null if the driver is not known: then HCAs decide by what they can.
const Provider* provider_of_driver(const std::string& driver);
// By the name that the kernel gives a device without a driver of PCI: "rxe0".
const Provider* provider_of_device(const std::string& name);

} // namespace gdr::doctor
