// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Open device files, and the pipes behind the descriptors of events. A device file is a sparse
// memory file: each offset that the kernel's interface gives mmap() a meaning is a page of its own
// there, so that mapping takes no help.
#pragma once

#include "emu/softmlx5/abi.hpp"

#include <optional>

namespace softmlx5 {

int open_command_file(unsigned device); // -1 with errno
// The device whose file it is.
std::optional<unsigned> device_of(int fd);
// 0 or an errno.
int execute(int fd, ib_uverbs_ioctl_hdr& header);
// Before it is closed, whatever it is.
void forget(int fd);

} // namespace softmlx5
