// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Whether the UCX that is served has CUDA of its own.
#pragma once

namespace gdr::abi {

// True: a module with CUDA transports lies where UCX looks for its modules first. None is opened,
// and the directory is read once.
bool built_with_cuda();

} // namespace gdr::abi
