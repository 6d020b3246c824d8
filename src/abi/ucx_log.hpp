// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCX's logger as the back end of the log.
#pragma once

namespace gdr::abi {

// Messages appear in UCX's log from now on, as "gdr: ...", subject to the user's level
// (UCX_LOG_LEVEL). choose_series() calls it.
void log_to_ucx();

} // namespace gdr::abi
