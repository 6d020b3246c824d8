// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// CUDA memory for ucx_perftest -m cuda and -m cuda-managed, which a UCX built without CUDA lacks.
#pragma once

namespace gdr::plugin {

// Gives ucx_perftest its allocators; does nothing in other programs. Does not call CUDA yet.
void provide_perftest_allocators();

} // namespace gdr::plugin
