// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The identity of a process among the processes of its host.
#pragma once

#include <cstdint>

namespace gdr::ipc {

struct [[gnu::packed]] Process {
    uint64_t host;          // the running system; changes with each boot
    uint64_t pid_namespace; // inode
    uint64_t id;            // random: no other process with the same pid has it, before or after
    uint32_t pid;
};

// The calling process; a forked child differs from its parent. Any thread.
Process this_process();

// Whether the process is in the system's first pid namespace, so in no container that has its own.
bool in_first_pid_namespace();

} // namespace gdr::ipc
