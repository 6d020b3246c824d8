// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// On x86-64 a function is patched with a jump of five bytes if its hook is within 2 GiB, and of
// twelve bytes otherwise. The patcher cannot relocate that many instructions at the beginning of
// the driver's functions. A program may have mapped more than 2 GiB between the driver and us.
#pragma once

namespace gdr::hooks {

// Returns code near the function that does what target does: target itself, or a jump to it, which
// stays for the life of the process. nullptr: there is no room, or the system refuses. One thread
// at a time.
void* code_near(void* function, void* target);

} // namespace gdr::hooks
