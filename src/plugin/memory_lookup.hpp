// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCP's look-up of a buffer's memory type, answered before it asks a memory domain.
#pragma once

namespace gdr::plugin {

// From now on the look-up of what is known to be host memory ends here: 30 instructions, where UCP
// asks its memory domains with some 200. To be called when UCX has loaded its components; nothing
// changes where some of these detect other memory than CUDA's.
void answer_memory_lookups();

} // namespace gdr::plugin
