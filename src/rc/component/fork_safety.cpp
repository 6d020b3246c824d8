// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Acts as UCX's own transports do, with the same default.
#include "rc/component/fork_safety.hpp"

#include "log/log.hpp"
#include "verbs/error.hpp"
#include "verbs/fork.hpp"

#include <pthread.h>

#include <atomic>

namespace gdr::rc {
namespace {

void warn()
{
    static std::atomic<bool> logged = false;
    if (!logged.exchange(true)) {
        gdr_log(warn,
                "this process forks, which ibv_fork_init() was not called for, or failed: what is "
                "sent and received from now on may be wrong (UCX_GDR_RC_FORK_INIT, or Linux 5.12)");
    }
}

void warn_at_fork()
{
    [[maybe_unused]] static const int registered = pthread_atfork(warn, nullptr, nullptr);
}

} // namespace

void provide_for_forks(abi::Ternary fork_init)
{
    if (!verbs::fork_init_needed()) {
        return;
    }
    if (fork_init == abi::Ternary::no) {
        warn_at_fork();
        return;
    }
    const int error = verbs::fork_init();
    if (error != 0 && fork_init == abi::Ternary::yes) {
        throw verbs::Error("ibv_fork_init", error, " (UCX_GDR_RC_FORK_INIT=y)");
    }
    if (error != 0) {
        gdr_log(diag, "ibv_fork_init: %s", verbs::errno_text(error).c_str());
        warn_at_fork();
    }
}

} // namespace gdr::rc
