// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The methods of DEVX: objects that a program makes itself, by commands in the device's own format.
// Each returns 0 or an errno: EREMOTEIO where the device has answered the command with a status.
#pragma once

#include "emu/softmlx5/context.hpp"

namespace softmlx5 {

int devx_other(Context& context, ib_uverbs_ioctl_hdr& header);
int devx_query_eqn(Context& context, ib_uverbs_ioctl_hdr& header);
int devx_subscribe(Context& context, ib_uverbs_ioctl_hdr& header);
int devx_open_channel(Context& context, ib_uverbs_ioctl_hdr& header);

int devx_create(Context& context, ib_uverbs_ioctl_hdr& header);
int devx_modify(Context& context, ib_uverbs_ioctl_hdr& header);
int devx_query(Context& context, ib_uverbs_ioctl_hdr& header);
int devx_destroy(Context& context, ib_uverbs_ioctl_hdr& header);

int devx_register(Context& context, ib_uverbs_ioctl_hdr& header);
int devx_deregister(Context& context, ib_uverbs_ioctl_hdr& header);

} // namespace softmlx5
