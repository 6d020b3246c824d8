// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Reads the kernel's identity of the system and of namespaces.
#include "ipc/process.hpp"

#include <atomic>
#include <fstream>
#include <mutex>
#include <random>
#include <string>

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gdr::ipc {

namespace {

uint64_t host_id()
{
    std::string name;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), name);
    if (name.empty()) { // no /proc, or not all of it
        char host[256] = "";
        gethostname(host, sizeof(host) - 1);
        name = host;
    }
    uint64_t id = 14695981039346656037u; // FNV-1a: the same in every process, unlike std::hash
    for (const char c : name) {
        id = (id ^ static_cast<unsigned char>(c)) * 1099511628211u;
    }
    return id;
}

uint64_t inode_of(const char* path)
{
    struct stat status {};
    return stat(path, &status) == 0 ? status.st_ino : 0;
}

uint64_t random_id()
{
    std::random_device random;
    const uint64_t high = random();
    return high << 32 | random();
}

} // namespace

// Makes no system call once the result is known, because keys are unpacked for each message.
Process this_process()
{
    static std::mutex mutex;
    static Process process{};
    static std::atomic<bool> known{false};
    static const int forgotten_by_child =
        pthread_atfork(nullptr, nullptr, [] { known.store(false, std::memory_order_relaxed); });
    if (known.load(std::memory_order_acquire) && forgotten_by_child == 0) [[likely]] {
        return process;
    }
    const std::lock_guard guard(mutex);
    if (const auto pid = static_cast<uint32_t>(getpid()); process.pid != pid) {
        process = {host_id(), inode_of("/proc/self/ns/pid"), random_id(), pid};
    }
    known.store(true, std::memory_order_release);
    return process;
}

bool in_first_pid_namespace()
{
    constexpr uint64_t kFirst = 0xEFFFFFFC; // PROC_PID_INIT_INO of the kernel
    return this_process().pid_namespace == kFirst;
}

} // namespace gdr::ipc
