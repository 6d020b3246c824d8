// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Answers UCP's look-up of a buffer's memory type before it asks a memory domain.
#pragma once

namespace gdr::plugin {

// From now on the look-up of known host memory ends here: 30 instructions, where UCP's query of its
// memory domains takes some 200. To be called when UCX has loaded its components. Nothing changes
// if one of these detects memory other than CUDA's.
void answer_memory_lookups();

} // namespace gdr::plugin
