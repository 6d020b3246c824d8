// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The component gdr_rc: a memory domain for each HCA and the RC transport on it. Registering it
// touches no device. Querying its memory domains, as ucp_init and ucx_info do, lists the HCAs.
#pragma once

#include "abi/component.hpp"

namespace gdr::rc {

const abi::Component& component();

} // namespace gdr::rc
