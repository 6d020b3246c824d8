// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Files that the kernel shows packed.
#pragma once

#include <string>

namespace gdr::doctor {

// What gzip has packed; other text as it is. Empty if it is no whole gzip file, or this build lacks
// zlib.
std::string unpacked(std::string content);

} // namespace gdr::doctor
