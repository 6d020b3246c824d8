// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Who a process is to the others of its host.
#pragma once

#include <cstdint>

namespace gdr::ipc {

struct [[gnu::packed]] Process {
    uint64_t host;          // the running system; other after each boot
    uint64_t pid_namespace; // inode
    uint64_t id;            // random: no process before or after it with the same pid has it
    uint32_t pid;
};

// The calling process; a forked child is another one than its parent. Any thread.
Process this_process();

// Whether its pids are those of the whole system: it is in no container that has its own.
bool in_first_pid_namespace();

} // namespace gdr::ipc
