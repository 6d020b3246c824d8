// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// News of device memory that is freed, for the registration caches and for UCP's.
#pragma once

namespace gdr::mem {

// A UCX that was built with CUDA hooks the driver itself: from then on its news are heard. No
// effect elsewhere. Any thread, without locks of ours.
void listen_to_own_cuda();

// Installs our hooks when first called, before the first registration of device memory: from then
// on registrations end before their memory is freed. False: some of what is freed is not seen, and
// found by looking; said once in UCX's log. CUDA must be initialised. Any thread.
bool frees_are_told();

// The same, but false until somebody has called that.
bool frees_are_told_by_now();

} // namespace gdr::mem
