// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The copy interface: transport gdr on device cuda. UCP puts to and gets from CUDA memory of its
// own process with it wherever the HCA cannot reach that memory or a protocol wants the data in
// host memory.
#pragma once

#include "abi/component.hpp"

namespace gdr::copy {

abi::Transport transport();

} // namespace gdr::copy
