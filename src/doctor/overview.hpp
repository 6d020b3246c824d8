// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What a machine has, a line each: UCX, MPI, HCAs, GPUs and which HCAs serve them.
#pragma once

#include "doctor/machine.hpp"

#include <string>

namespace gdr::doctor {

// "1.18.1, /usr/lib/libucp.so.0"
std::string ucx_of(const Machine& machine);
std::string overview_of(const Machine& machine);

} // namespace gdr::doctor
