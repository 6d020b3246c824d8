// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A program makes a UCP context with variables of its own (abi/context_settings.hpp).
#include "abi/context_settings.hpp"
#include "host/registration_cache.hpp"
#include "host/transports.hpp"
#include "log/log.hpp"
#include "preload/module.h"

#include <exception>

extern "C" [[gnu::visibility("default")]] void gdr_context_begins(const void* config,
                                                                  gdr_print_config* print)
{
    try {
        gdr::abi::begin_context(config, print);
        gdr::host::registration_cache().context_begins();
        gdr::host::transports().context_begins();
    } catch (const std::exception& error) {
        gdr_log(warn,
                "the UCX settings that the program gives a context are not seen, those of the "
                "environment count: %s",
                error.what());
    }
}

extern "C" [[gnu::visibility("default")]] void gdr_context_ends()
{
    gdr::abi::end_context();
}
