// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Who else in this UCX tells what memory an address belongs to.
#pragma once

namespace gdr::abi {

// Whether no component of this UCX detects memory other than CUDA's: what CUDA does not know is
// host memory then, to UCP as well. False where a component is there that we do not know. To be
// called once UCX has loaded its components, as it has when it asks ours for memory domains.
bool only_cuda_is_detected();

} // namespace gdr::abi
