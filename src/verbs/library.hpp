// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The module is not linked with libibverbs: it is opened when the first HCA is looked for. Its
// functions are called by their names, after that; test programs are linked with it.
#pragma once

#include <string>

namespace gdr::verbs {

// Opens it at the first call. Not empty: why none of its functions may be called. Any thread.
const std::string& open_library();

} // namespace gdr::verbs
