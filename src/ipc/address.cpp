// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Compares addresses.
#include "ipc/address.hpp"

#include "log/log.hpp"

#include <atomic>
#include <cstring>

#include <unistd.h>

namespace gdr::ipc {

namespace {

void log_namespaces(const Process& other)
{
    static std::atomic<bool> logged{false};
    if (!logged.exchange(true)) {
        gdr_log(info,
                "no CUDA IPC with process %u of this host, which has another pid namespace: CUDA "
                "opens its memory only where both have the same one, as containers have that are "
                "started with --pid=host or --pid=container:<name>",
                other.pid);
    }
}

} // namespace

Address make_address()
{
    return {kAddressTag, this_process()};
}

Process process_of(const void* address)
{
    Address other;
    memcpy(&other, address, sizeof(other));
    return other.process;
}

bool reaches(const Address& own, const void* address)
{
    if (address == nullptr || memcmp(address, &own.tag, sizeof(own.tag)) != 0) {
        return false;
    }
    const Process other = process_of(address);
    if (other.host != own.process.host || other.id == own.process.id ||
        own.process.pid != static_cast<uint32_t>(getpid())) {
        return false;
    }
    if (other.pid_namespace != own.process.pid_namespace) {
        log_namespaces(other);
        return false;
    }
    return true;
}

} // namespace gdr::ipc
