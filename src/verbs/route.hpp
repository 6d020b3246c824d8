// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Routes of RoCE: those that Linux has for its network interfaces.
#pragma once

#include "verbs/gid.hpp"

namespace gdr::verbs {

enum class Route { unknown, exists, none };

// Whether the kernel has a route from the address of a GID, by the network interface that it
// belongs to, to that of another. Link-local addresses have none, and need none.
Route find_route(const GidEntry& from, const ibv_gid& to);

} // namespace gdr::verbs
