// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Variables of UCX: our own that belong to no component, and those of UCX that the plugin reads or
// changes. To be called before other threads use UCX.
#pragma once

#include "abi/iface.hpp"
#include "abi/options.hpp"

#include <optional>
#include <string>

namespace gdr::abi {

// Fills storage (table.size bytes) and shows the table's variables in ucx_info -f. The table and
// its strings live as long as the process.
void register_options(const OptionTable& table, void* storage);

// What the user gave for UCX_<name>, in the environment or in a ucx.conf; nothing if not set.
std::optional<std::string> user_setting(const char* name);

// Whether a boolean value is no, in any of the words that UCX accepts.
bool says_no(const std::string& value);

// What the user gave for the boolean UCX_<name>; `otherwise` if not set.
bool boolean_setting(const char* name, bool otherwise);

// Whether the user asks for gdr by name, and not only for all, in UCX_TLS, or in UCX_GDR_TLS if
// UCX_TLS is not set. Such a user must see in the log why gdr or a part of it is missing; others
// need not.
bool user_names_gdr();

// Whether UCX_TLS admits gdr: the value of the context that is being made, or the user's. Otherwise
// no domain of ours is opened (left_out.hpp).
bool user_wants_gdr();

// Whether this process has made a context that leaves gdr out.
bool left_out_of_a_context();

// Gives UCX_<name> a value as a ucx.conf would: variables of the environment, also with an
// application's own prefix (<prefix>_UCX_<name>), override it. For variables that UCX reads when it
// makes a context. Unlike an environment variable, child processes do not inherit it. False: UCX
// did not accept it.
bool set_default(const char* name, const char* value);

// Sets one of UCX's global options, which it reads when it is loaded. False: UCX did not accept it.
bool set_global_option(const char* name, const char* value);

// Whether UCP is loading this library now and has read its configuration already: a default that is
// set then is too late for the context that it is making. To be asked while the library is loaded.
bool ucp_is_loading_us();

// Whether the context that is being made uses protocols v2: the series' default, or what the user
// or the program says. To be asked while a memory domain is opened.
bool protocols_v2();

// Whether protocols v1 of this series read a packed key behind a ready-to-send that has none. If
// they find a memory type there that is not the host's, they ask the sender for a pipeline, and end
// the process when plain data arrive.
bool reads_behind_rts();
inline constexpr uint32_t kRtsId = 9;       // UCP_AM_ID_RNDV_RTS of these series
inline constexpr size_t kReadBehindRts = 9; // bytes: the map of memory domains, the memory type

// The latency of an operation to report to UCP's protocols v2, in seconds, so that they arrive at
// the same value in every series.
double told_latency(EpOperation operation, double latency);

} // namespace gdr::abi
