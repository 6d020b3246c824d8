// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "host/transports.hpp"

#include "abi/context_settings.hpp"
#include "abi/own_cuda.hpp"
#include "abi/settings.hpp"
#include "abi/transport_list.hpp"
#include "log/log.hpp"
#include "verbs/device.hpp"

#include <string>

namespace gdr::host {
namespace {

std::string users_default()
{
    return abi::user_setting("GDR_TLS").value_or("");
}

} // namespace

Transports& transports()
{
    static constinit Transports instance;
    return instance;
}

bool Transports::has_other_default() const
{
    return !users_default().empty() && !abi::user_setting("TLS") && !abi::built_with_cuda() &&
           verbs::may_have_devices();
}

bool Transports::make()
{
    return abi::set_default("TLS", users_default().c_str());
}

void Transports::report() const
{
    if (refused()) {
        gdr_log(warn, "UCX did not take UCX_TLS=%s from UCX_GDR_TLS, set it in the environment",
                users_default().c_str());
    }
}

// UCX is prepared once, with the environment's value, before it reads any variable for a program.
void Transports::context_begins() const
{
    const std::string here = abi::context_setting("TLS").value_or("all");
    const std::string prepared_for = abi::user_setting("TLS").value_or("all");
    if (abi::names_transport(here, "gdr") && !abi::lists_transport(prepared_for, "gdr")) {
        gdr_log(warn,
                "the program gives this context UCX_TLS=%s, but UCX_TLS=%s of the environment, for "
                "which UCX was prepared, leaves gdr out: UCX may take GPU memory for host memory. "
                "Unset UCX_TLS in the environment, or add gdr to it",
                here.c_str(), prepared_for.c_str());
    }
}

} // namespace gdr::host
