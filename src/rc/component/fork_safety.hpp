// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Handles forks of this process as UCX_GDR_RC_FORK_INIT says.
#pragma once

#include "abi/options.hpp"

namespace gdr::rc {

// To be called before anything is registered. Throws verbs::Error if ibv_fork_init() is required
// and fails. It affects the whole process, but not processes that leave gdr out of UCX_TLS, because
// they open no domain.
void provide_for_forks(abi::Ternary fork_init);

} // namespace gdr::rc
