// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// PCI devices in sysfs.
#pragma once

#include "doctor/reader/root.hpp"
#include "topology/place.hpp"

#include <string>

namespace gdr::doctor {

// directory: a link to the device in sysfs, as /sys/class/infiniband/mlx5_0/device.
topology::Place read_place(const Root& root, const Path& directory);

// Its directory in sysfs.
Path directory_of(const std::string& address);

} // namespace gdr::doctor
