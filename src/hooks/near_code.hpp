// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// On x86-64 a function is patched with a jump of five bytes where its hook is within 2 GiB, and of
// twelve elsewhere, for which the instructions at the beginning of the driver's functions cannot be
// taken apart. A program may have mapped more than that between the driver and us.
#pragma once

namespace gdr::hooks {

// Code that does what target does, near enough to a function: target itself, or a jump to it, which
// stays for the life of the process. nullptr: no room there, or the system refuses. One thread at a
// time.
void* code_near(void* function, void* target);

} // namespace gdr::hooks
