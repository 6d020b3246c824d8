// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Acts as UCX's own transports do, with the same default.
#include "rc/component/fork_safety.hpp"

#include "log/log.hpp"
#include "verbs/error.hpp"
#include "verbs/fork.hpp"

#include <pthread.h>

#include <atomic>
#include <string>

namespace gdr::rc {
namespace {

// Why ibv_fork_init() has no effect, and what to do.
std::string& cause()
{
    static auto& text = *new std::string; // forks also happen while the process ends
    return text;
}

void warn()
{
    static std::atomic<bool> logged = false;
    if (!logged.exchange(true)) {
        gdr_log(warn,
                "this process forks, and what it sends and receives from now on may be wrong: this "
                "Linux is older than 5.12, and %s",
                cause().c_str());
    }
}

void warn_at_fork(const std::string& why)
{
    [[maybe_unused]] static const int registered = [&] {
        cause() = why;
        return pthread_atfork(warn, nullptr, nullptr);
    }();
}

} // namespace

void provide_for_forks(abi::Ternary fork_init)
{
    if (!verbs::fork_init_needed()) {
        return;
    }
    if (fork_init == abi::Ternary::no) {
        warn_at_fork("UCX_GDR_RC_FORK_INIT=n forbids ibv_fork_init(): unset it");
        return;
    }
    const int error = verbs::fork_init();
    if (error != 0 && fork_init == abi::Ternary::yes) {
        throw verbs::Error("ibv_fork_init", error, " (UCX_GDR_RC_FORK_INIT=y)");
    }
    if (error != 0) {
        warn_at_fork("ibv_fork_init() failed: " + verbs::errno_text(error) +
                     " (RDMAV_FORK_SAFE=1 has it called in time)");
    }
}

} // namespace gdr::rc
