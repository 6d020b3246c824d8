// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCX's news of unmapped memory, for UnmapLog and host_pages.
#pragma once

namespace gdr::mem {

// Installs the watch when first called. False: UCX's hooks are off, nothing is told, and what is
// known of host memory cannot be kept; said once in UCX's log. Any thread.
bool unmaps_are_seen();

} // namespace gdr::mem
