// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The function by which all of UCX reads variables, and which variable_reads.cpp takes over.
#pragma once

namespace gdr::abi {

// libucs's own ucs_config_parser_fill_opts(), of the running series' type.
void* fill_options_of_libucs();

} // namespace gdr::abi
