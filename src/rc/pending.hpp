// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Requests that found no resources are retried, in order, when some return. While any wait, the
// endpoint offers no resources to new operations, so these cannot overtake them.
#pragma once

namespace gdr::rc {

struct Iface;

// Some of the interface's endpoints have pending requests.
void dispatch_pending(Iface& iface);

} // namespace gdr::rc
