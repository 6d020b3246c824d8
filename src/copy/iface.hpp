// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The copy interface: transport gdr on device cuda. UCP uses it to put to and get from CUDA memory
// of its own process if the HCA cannot access that memory, or if a protocol wants the data in host
// memory.
#pragma once

#include "abi/component.hpp"

namespace gdr::copy {

abi::Transport transport();

} // namespace gdr::copy
