// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What a value of UCX_TLS says about one transport.
#pragma once

#include <string_view>

namespace gdr::abi {

// Whether list, as in UCX_TLS ("all", "gdr,tcp", "^sm", "rc:aux"), admits the transport of this
// name.
bool lists_transport(std::string_view list, std::string_view name);

// Whether it leaves the transport out by its name: "^gdr".
bool excludes_transport(std::string_view list, std::string_view name);

// Whether it asks for the transport by its own name, and not only for all.
bool names_transport(std::string_view list, std::string_view name);

} // namespace gdr::abi
