// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Whether the UCX that is served was built with CUDA.
#pragma once

namespace gdr::abi {

// True if a module with CUDA transports is in the first directory that UCX searches for its
// modules. No module is opened, and the directory is read once.
bool built_with_cuda();

} // namespace gdr::abi
