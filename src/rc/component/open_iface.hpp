// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Opens an RC interface, or one that does nothing where UCX would give up the worker.
#pragma once

extern "C" {
#include <uct/api/uct.h>
}

namespace gdr::rc {

ucs_status_t iface_open(uct_md_h md, uct_worker_h worker, const uct_iface_params_t* params,
                        const uct_iface_config_t* config, uct_iface_h* iface);

} // namespace gdr::rc
