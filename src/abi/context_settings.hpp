// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The variables of one UCP context. A program can give a context values of its own, by
// ucp_config_modify() or under a prefix (ucp_config_read("APP", ...) reads APP_UCX_TLS): those
// hold, whatever the environment says. They are seen while ucp_init() makes the context, where its
// call passes through libuct_gdr.so.0; a memory domain of ours is opened during that call, by the
// same thread.
#pragma once

#include <optional>
#include <string>

#include <cstdio>

namespace gdr::abi {

// UCP's ucp_config_print(), the same in all series.
using PrintConfig = void(const void* config, std::FILE* stream, const char* title, unsigned flags);

// The calling thread enters, and leaves, ucp_init() with this configuration.
void begin_context(const void* config, PrintConfig* print);
void end_context();

// What UCX_<name> is for the context that the calling thread is making; outside of ucp_init(), or
// where that is not seen or does not tell, what the user gave, as user_setting().
std::optional<std::string> context_setting(const char* name);

} // namespace gdr::abi
