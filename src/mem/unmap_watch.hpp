// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Passes UCX's events of unmapped memory to UnmapLog and host_pages.
#pragma once

namespace gdr::mem {

// Installs the watch at the first call. False: UCX's hooks are off, so there are no events, and
// nothing known about host memory may be kept; UCX's log says so once. Any thread.
bool unmaps_are_seen();

} // namespace gdr::mem
