// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The IPC interface: transport gdr on device ipc. UCP uses it to put to and get from device memory
// of other processes of the host if that is faster than the HCA.
#pragma once

#include "abi/component.hpp"

namespace gdr::ipc {

abi::Transport transport();

} // namespace gdr::ipc
