// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The methods of the ioctl by which libibverbs talks to a device, and their attributes.
#pragma once

#include "emu/softmlx5/context.hpp"

namespace softmlx5 {

bool asks_for_context(const ib_uverbs_ioctl_hdr& header);

// 0 or an errno: EPROTONOSUPPORT for a method that is not there. Null: the device is not open yet.
int execute(Context* context, ib_uverbs_ioctl_hdr& header);

} // namespace softmlx5
