// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The tables of operations that UCT calls, by what the interface may assume of memory.
#pragma once

#include "rc/iface.hpp"

namespace gdr::rc {

IfaceOperations operations_for(const MemoryRules& rules);

} // namespace gdr::rc
