// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Reports freed device memory to our registration caches and to UCP's.
#pragma once

namespace gdr::mem {

// A UCX that was built with CUDA hooks the driver itself; this function subscribes to its events.
// It has no effect with any other UCX. Any thread; takes none of our locks.
void listen_to_own_cuda();

// Installs our hooks at the first call, before the first registration of device memory. From then
// on registrations end before their memory is freed. False: some frees are not seen, so freed
// memory must be searched for; UCX's log says so once. CUDA must be initialised. Any thread.
bool frees_are_reported();

// The same, but false until somebody has called frees_are_reported().
bool frees_are_reported_by_now();

} // namespace gdr::mem
