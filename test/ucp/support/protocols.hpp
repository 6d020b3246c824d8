// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which of UCP's protocols this process uses, and what those of this UCX do.
#pragma once

namespace ucptest {

// Protocols v2, the default since UCX 1.16.
bool protocols_v2();

// On endpoints that report a peer's failure. With UCX 1.14 to 1.18 protocols v2 get by active
// messages there: the peer's processor reads, from whatever address it is told.
bool gets_use_the_hca();

} // namespace ucptest
