// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The component gdr_cuda: the CUDA memory domain and the copy interface on it. Registering it does
// not touch CUDA. Querying its memory domains, as ucp_init and ucx_info do, loads the driver but
// does not initialise CUDA. No context is created before memory is copied or allocated.
#pragma once

#include "abi/component.hpp"

namespace gdr::copy {

const abi::Component& component();

} // namespace gdr::copy
