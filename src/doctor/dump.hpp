// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What was read of a machine, written to a directory, in which it can be looked at elsewhere: facts
// in facts.json, files below root/. Names of hosts and users, and addresses, are replaced, and of
// the environment there is what the checks ask for alone.
#pragma once

#include "doctor/reader/root.hpp"

namespace gdr::doctor {

// After the checks have run. The directory must not exist; throws if it cannot be written.
void write_dump(const Root& root, const Path& directory);
Root read_dump(const Path& directory);

} // namespace gdr::doctor
