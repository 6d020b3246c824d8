// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which other components of this UCX detect memory types.
#pragma once

namespace gdr::abi {

// Whether no component of this UCX detects memory other than CUDA's: then memory that CUDA does not
// know is host memory for UCP, too. False if there is an unknown component. To be called once UCX
// has loaded its components, as it has when it asks ours for memory domains.
bool only_cuda_is_detected();

} // namespace gdr::abi
