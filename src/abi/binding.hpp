// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The module is not linked with UCX; it is bound to the UCX of the process at run time.
#pragma once

#include <string>

namespace gdr::abi {

// Binds to the UCX of this libuct handle, which stays open for the life of the process. If the
// result is not empty, it is the symbol that this UCX lacks, and nothing of UCX may be used. Call
// it once. It may be called again for another UCX as long as nothing of the first is in use.
[[nodiscard]] std::string bind(void* libuct);

} // namespace gdr::abi
