// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// An interface that does nothing and reaches nobody. UCX opens an interface on each port for each
// worker, and gives the worker up where one fails: a worker for which too little locked memory is
// left, or whose HCA refuses what it did not when it was looked at (trial.hpp), gets this one, and
// its other transports.
#pragma once

#include "abi/iface.hpp"

namespace gdr::rc {

ucs_status_t open_stand_in(uct_md_h md, uct_worker_h worker, const uct_iface_params_t* params,
                           const uct_iface_config_t* config, uct_iface_h* iface);

} // namespace gdr::rc
