// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Settings of the UCX around us: UCX_MEMTYPE_CACHE, without which device memory is not recognised,
// and UCX_TLS, which UCX_GDR_TLS chooses where UCX was built without CUDA. Neither is changed where
// the user has set it, be it in the environment or in a ucx.conf, nor the first where UCX_TLS
// leaves gdr out or no GPU can be used.
#pragma once

namespace gdr::plugin {

enum class Moment {
    loaded,    // this library has been loaded into a process that may never use UCX
    ucx_starts // UCX is about to read its configuration
};

// To be called once. The settings hold for this process: they are not in the environment of its
// children. An application whose variables have a prefix of their own (ucp_config_read("APP", ...):
// APP_UCX_*) can override them.
void prepare_host(Moment moment);

// One INFO line for a setting that was changed, naming the variable and the reason; a warning for
// one that UCX did not take.
void report_preparation();

} // namespace gdr::plugin
