// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A program makes a UCP context with variables of its own (abi/context_settings.hpp).
#include "abi/context_settings.hpp"
#include "abi/host.hpp"
#include "abi/registration_cache.hpp"
#include "abi/settings.hpp"
#include "abi/transport_list.hpp"
#include "preload/module.h"

#include <exception>

namespace gdr::plugin {
namespace {

// UCX is prepared once, with the environment's value, before it reads any variable for a program.
void compare_transports()
{
    const std::string here = abi::context_setting("TLS").value_or("all");
    const std::string prepared_for = abi::user_setting("TLS").value_or("all");
    if (abi::names_transport(here, "gdr") && !abi::lists_transport(prepared_for, "gdr")) {
        gdr_log(warn,
                "the program gives this context UCX_TLS=%s, but UCX was prepared for UCX_TLS=%s of "
                "the environment, which leaves gdr out: it may take GPU memory for host memory "
                "(unset UCX_TLS there, or add gdr to it)",
                here.c_str(), prepared_for.c_str());
    }
}

} // namespace
} // namespace gdr::plugin

extern "C" [[gnu::visibility("default")]] void gdr_context_begins(const void* config,
                                                                  gdr_print_config* print)
{
    try {
        gdr::abi::begin_context(config, print);
        gdr::abi::look_at_context();
        gdr::plugin::compare_transports();
    } catch (const std::exception& error) {
        gdr_log(error, "the variables of a context: %s", error.what());
    }
}

extern "C" [[gnu::visibility("default")]] void gdr_context_ends()
{
    gdr::abi::end_context();
}
