// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What UCX_GDR_RC_FORK_INIT says about forks of this process.
#pragma once

#include "abi/options.hpp"

namespace gdr::rc {

// To be called before anything is registered. Throws verbs::Error where it has to be and cannot be
// done. It concerns the whole process: whoever leaves gdr out of UCX_TLS is left alone, since no
// domain is opened there.
void provide_for_forks(abi::Ternary fork_init);

} // namespace gdr::rc
