// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The changes without which the UCX in this process does not recognise or handle device memory.
// This changes no setting that the user has made, in the environment or in a ucx.conf, and nothing
// if UCX_TLS leaves gdr out or no GPU can be used. UCX_GDR_TLS sets UCX_TLS if the user has not,
// UCX was built without CUDA and there is an HCA. UCP's registration cache stays enabled if that is
// sound, if there is no HCA, or if UCX_NET_DEVICES names none.
#pragma once

#include <string>

namespace gdr::host {

enum class Moment {
    loaded,    // this library has been loaded into a process that may never use UCX
    ucx_starts // UCX is about to read its configuration
};

// To be called once, before UCX reads its configuration. The changes hold for this process; child
// processes do not inherit them. An application whose variables have a prefix of their own
// (ucp_config_read("APP", ...): APP_UCX_*) can override them.
//
// A non-empty result says why the process cannot be prepared and the plugin must not be used; then
// nothing was changed.
std::string prepare(Moment moment);

// Logs each change that prepare() has made to a variable, and those that UCX did not take.
void report_preparation();

} // namespace gdr::host
