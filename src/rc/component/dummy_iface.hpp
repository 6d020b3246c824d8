// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// An interface that does nothing and reaches nobody. UCX opens an interface on each port for each
// worker, and gives up the worker if one fails. If too little locked memory is left for a worker,
// or the HCA refuses what it accepted in try_queues() (trial.hpp), the worker gets this interface
// and keeps its other transports.
#pragma once

#include "abi/iface.hpp"

namespace gdr::rc {

ucs_status_t open_dummy_iface(uct_md_h md, uct_worker_h worker, const uct_iface_params_t* params,
                              const uct_iface_config_t* config, uct_iface_h* iface);

} // namespace gdr::rc
