// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The component gdr_ipc: CUDA IPC between processes of one host. It has its own memory domain so
// that UCP can leave it out for single buffers.
#pragma once

#include "abi/component.hpp"

namespace gdr::ipc {

const abi::Component& component();

} // namespace gdr::ipc
