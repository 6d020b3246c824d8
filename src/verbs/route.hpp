// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// RoCE routes: the Linux routes of the HCA's network interface.
#pragma once

#include "verbs/gid.hpp"

namespace gdr::verbs {

enum class Route { unknown, exists, none };

// Whether the kernel has a route from one GID's address to the other's by the first GID's network
// interface. Link-local addresses have and need none.
Route find_route(const GidEntry& from, const ibv_gid& to);

} // namespace gdr::verbs
