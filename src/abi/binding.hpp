// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The module is linked with no UCX: it is bound to one when the process has it.
#pragma once

#include <string>

namespace gdr::abi {

// By a handle of its libuct, which stays open for the life of the process. Not empty: the symbol
// that this UCX lacks; nothing of UCX may be used then. Once, and for another UCX as long as
// nothing of this one is in use.
[[nodiscard]] std::string bind(void* libuct);

} // namespace gdr::abi
