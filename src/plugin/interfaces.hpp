// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Tells host/short_sends.hpp what UCP's short sends depend on: interfaces, and MPI calls.
#pragma once

#include "mpi/serve.hpp"

namespace gdr::plugin {

// Receives the events of the MPI layer.
extern const mpi::Listener listener_to_mpi;

} // namespace gdr::plugin
