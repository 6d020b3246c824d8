// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the kernel would show of the devices: below /sys/class/infiniband and infiniband_verbs a
// directory of files, which a process makes when it looks there first and which goes with it; their
// device files, /dev/infiniband/uverbsN; and the module by which they take GPU memory.
#pragma once

#include <string>

#include <sys/types.h>

namespace softmlx5 {

// Where a path leads that is to be one of these; empty: it is none.
std::string in_sysfs(const char* path);

// The number of the device whose file a path names; -1: of none.
int device_of_file(const char* path);

dev_t device_number(unsigned device);

} // namespace softmlx5
