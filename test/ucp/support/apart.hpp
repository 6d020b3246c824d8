// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Two hosts on one machine, as root can have them: with UCPTEST_APART set to anything, ranks of odd
// numbers have another boot_id than the others, by which processes know their host.
#pragma once

namespace ucptest {

// In a rank's new process. Throws Failure.
void keep_apart(int rank);

} // namespace ucptest
