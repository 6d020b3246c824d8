// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Settings of the UCX around us without which device memory is not recognised or not handled. None
// is changed that the user has set, be it in the environment or in a ucx.conf, and none where
// UCX_TLS leaves gdr out or no GPU can be used; UCP's cache of registrations is left on where that
// is sound, where there is no HCA, or where UCX_NET_DEVICES names none. And UCX_TLS, which
// UCX_GDR_TLS chooses where the user has not and UCX was built without CUDA.
#pragma once

#include <string>

namespace gdr::plugin {

enum class Moment {
    loaded,    // this library has been loaded into a process that may never use UCX
    ucx_starts // UCX is about to read its configuration
};

// To be called once, before UCX reads its configuration. The settings hold for this process: they
// are not in the environment of its children. An application whose variables have a prefix of their
// own (ucp_config_read("APP", ...): APP_UCX_*) can override them.
//
// Not empty: why the host cannot be prepared and the plugin must not be used; nothing was changed.
std::string prepare_host(Moment moment);

// One INFO line for each setting that was changed, naming the variable and the reason; a warning
// for one that UCX did not take.
void report_preparation();

} // namespace gdr::plugin
