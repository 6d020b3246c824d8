// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory of cuMemCreate is mapped into reserved addresses, and allocators map one handle beside the
// other as their memory grows: to CUDA each is an allocation of its own, to the application a
// buffer may lie in several. Any thread.
#pragma once

#include "cuda/pointer.hpp"

#include <optional>

namespace gdr::cuda {

// The mapping that begins where one ends, or ends where it begins, if there is one of the same GPU
// in the same reservation. Other memory than mappings stands alone. Two calls of the driver. Throws
// Error.
std::optional<Pointer> mapping_after(const Driver& driver, const Pointer& one);
std::optional<Pointer> mapping_before(const Driver& driver, const Pointer& one);

} // namespace gdr::cuda
