// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory of cuMemCreate is mapped into reserved addresses, and allocators map one handle next to
// another as they grow. For CUDA each mapping is an allocation of its own, but a buffer of the
// application may span several. Any thread.
#pragma once

#include "cuda/pointer.hpp"

#include <optional>

namespace gdr::cuda {

// The mapping directly after or before another one, if there is one of the same GPU in the same
// reservation. Memory that is not mapped this way has no neighbours. Costs two driver calls. Throws
// Error.
std::optional<Pointer> mapping_after(const Driver& driver, const Pointer& one);
std::optional<Pointer> mapping_before(const Driver& driver, const Pointer& one);

} // namespace gdr::cuda
