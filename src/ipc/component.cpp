// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The component's calls.
#include "ipc/component.hpp"

#include "abi/settings.hpp"
#include "cuda/driver.hpp"
#include "ipc/iface.hpp"
#include "ipc/memory_domain.hpp"
#include "ipc/process.hpp"
#include "log/log.hpp"
#include "streams/iface.hpp"

#include <atomic>

namespace gdr::ipc {

namespace {

constexpr char kName[] = "gdr_ipc"; // of the component and of its memory domain

// ucx-gdr info shows these lines too. UCT asks more than once, so they are logged once.
void log_limits()
{
    static std::atomic<bool> logged{false};
    if (logged.exchange(true)) {
        return;
    }
    gdr_log(info, "CUDA IPC is tried with memory of cudaMalloc, and of cuMemCreate with POSIX "
                  "file descriptors or fabric handles; not with that of pools (cudaMallocAsync, "
                  "RMM's async resource, PyTorch with backend:cudaMallocAsync) and PyTorch's "
                  "expandable_segments");
    if (!in_first_pid_namespace()) {
        gdr_log(info, "CUDA IPC reaches the processes of this container alone, which has a pid "
                      "namespace of its own (--pid=host, or --pid=container:<name> for others')");
    }
}

std::vector<std::string> query_md_resources()
{
    if (cuda::open_driver() == nullptr) {
        return {};
    }
    if (!abi::boolean_setting(kSwitch, true)) {
        gdr_log(info, "no CUDA IPC between processes of this host: UCX_GDR_IPC=n");
        return {};
    }
    log_limits();
    return {kName};
}

std::unique_ptr<abi::MemoryDomain> open_md(const char*, const abi::MdConfig* config)
{
    return std::make_unique<MemoryDomain>(streams::require_driver(),
                                          *reinterpret_cast<const MdSettings*>(config));
}

} // namespace

const abi::Component& component()
{
    static const abi::Component instance = {
        .name = kName,
        .query_md_resources = query_md_resources,
        .open_md = open_md,
        .unpack_rkey = unpack_rkey,
        .release_rkey = release_rkey,
        .md_options = md_options(),
        .transports = {transport()},
    };
    return instance;
}

} // namespace gdr::ipc
