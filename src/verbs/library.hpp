// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The module is not linked with libibverbs but opens it when it first looks for an HCA. After that,
// code calls the functions by their names. Test programs are linked with libibverbs.
#pragma once

#include <string>

namespace gdr::verbs {

// Opens the library at the first call. If the result is not empty, it says why none of the
// functions may be called. Any thread.
const std::string& open_library();

} // namespace gdr::verbs
