// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Variables of UCX: our own that belong to no component, and those of UCX that the plugin has to
// know or to change for its host. To be called before other threads use UCX.
#pragma once

#include "abi/iface.hpp"
#include "abi/options.hpp"

#include <optional>
#include <string>

namespace gdr::abi {

// Fills storage (table.size bytes) and shows the table's variables in ucx_info -f. The table and
// its strings live as long as the process.
void register_options(const OptionTable& table, void* storage);

// What the user gave for UCX_<name>, in the environment or in a ucx.conf; nothing when he did not.
std::optional<std::string> user_setting(const char* name);

// Of a value for y or n, in any of the words that UCX takes: whether it is n.
bool says_no(const std::string& value);

// What the user gave for UCX_<name>, y or n; otherwise when he did not.
bool boolean_setting(const char* name, bool otherwise);

// Whether the user asks for gdr by name in UCX_TLS, or UCX_GDR_TLS where that is not set, and not
// only for all: who does must learn at a level that he sees why it, or a part of it, is not there;
// who does not need not.
bool user_names_gdr();

// Whether UCX_TLS leaves gdr among UCX's transports: that of the context that is being made, or the
// user's. Where it does not, no domain of ours is opened (left_out.hpp).
bool user_wants_gdr();

// Whether a context was made in this process that it leaves gdr out of.
bool left_out_of_a_context();

// Gives UCX_<name> a value as a ucx.conf would: variables of the environment, with an application's
// own prefix too (<prefix>_UCX_<name>), go before it. For variables that UCX reads when a context
// is made. Unlike an environment variable it is not inherited by child processes. False: UCX did
// not take it.
bool set_default(const char* name, const char* value);

// Sets one of UCX's global options, which it reads when it is loaded. False: UCX did not take it.
bool set_global_option(const char* name, const char* value);

// Whether UCP is loading this library now, having read its configuration: what is then given as a
// default comes too late for the context it is making. To be asked while the library is loaded.
bool ucp_is_loading_us();

// Whether UCP uses protocols v2 in the context that is being made: this series' default, or what
// the user or the program says. To be asked while a memory domain is opened.
bool protocols_v2();

// Whether protocols v1 of this series read the beginning of a packed key behind a ready-to-send
// that has none: where they find a memory type there that is not the host's, they ask the sender
// for a pipeline, and end the process when plain data comes.
bool reads_behind_rts();
inline constexpr uint32_t kRtsId = 9;       // UCP_AM_ID_RNDV_RTS of these series
inline constexpr size_t kReadBehindRts = 9; // bytes: the map of memory domains, the memory type

// What to tell UCP for the latency of an operation, in seconds, with protocols v2: so that they
// come to the same in every series.
double told_latency(EpOperation operation, double latency);

} // namespace gdr::abi
