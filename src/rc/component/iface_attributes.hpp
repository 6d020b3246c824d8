// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What an interface tells UCP: its capabilities and addresses, and whom it reaches.
#pragma once

extern "C" {
#include <uct/api/uct.h>
}

namespace gdr::rc {

ucs_status_t iface_query(uct_iface_h iface, uct_iface_attr_t* attributes);
ucs_status_t iface_get_device_address(uct_iface_h iface, uct_device_addr_t* address);
ucs_status_t iface_get_address(uct_iface_h iface, uct_iface_addr_t* address);
int iface_is_reachable(const uct_iface_h iface, const uct_device_addr_t* device_address,
                       const uct_iface_addr_t* iface_address);

} // namespace gdr::rc
