// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The variables of one UCP context. A program can give a context its own values, by
// ucp_config_modify() or under a prefix (ucp_config_read("APP", ...) reads APP_UCX_TLS), which
// override the environment. They are known while ucp_init() makes the context, if the call passes
// through libuct_gdr.so.0. The same thread opens our memory domains during that call.
#pragma once

#include <optional>
#include <string>

#include <cstdio>

namespace gdr::abi {

// UCP's ucp_config_print(), the same in all series.
using PrintConfig = void(const void* config, std::FILE* stream, const char* title, unsigned flags);

// The calling thread enters ucp_init() with this configuration, and leaves it.
void begin_context(const void* config, PrintConfig* print);
void end_context();

// The value of UCX_<name> for the context that the calling thread is making. Outside of ucp_init(),
// or if the call or the value is not known: what the user gave, as user_setting().
std::optional<std::string> context_setting(const char* name);

} // namespace gdr::abi
