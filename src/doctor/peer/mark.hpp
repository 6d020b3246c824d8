// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the lines of the other side of a pair begin with: launchers, login shells and UCX write to
// its standard output, too.
#pragma once

#include <string_view>

namespace gdr::peer {

constexpr std::string_view kMark = "ucx-gdr-peer: ";

} // namespace gdr::peer
