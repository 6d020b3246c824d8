// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The facts of this process.
#include "doctor/reader/facts.hpp"

#include "doctor/reader/text.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace gdr::doctor {
namespace {

constexpr unsigned kIpcLock = 14; // CAP_IPC_LOCK

std::optional<uint64_t> limit(__rlimit_resource_t resource)
{
    rlimit limits{};
    if (getrlimit(resource, &limits) != 0 || limits.rlim_cur == RLIM_INFINITY) {
        return std::nullopt;
    }
    return limits.rlim_cur;
}

bool locks_without_limit()
{
    // The kernel asks for the capability in the first user namespace, which maps all ids.
    std::ifstream map("/proc/self/uid_map");
    uint64_t inside = 0;
    uint64_t outside = 0;
    uint64_t count = 0;
    if (!(map >> inside >> outside >> count) || outside != 0 || count != 0xffffffff) {
        return false;
    }
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("CapEff:")) {
            return std::strtoull(line.c_str() + 7, nullptr, 16) >> kIpcLock & 1;
        }
    }
    return false;
}

} // namespace

std::string Facts::variable(const std::string& name) const
{
    const auto found = environment.find(name);
    return found == environment.end() ? "" : found->second;
}

Facts facts_of_this_process(std::vector<std::string> command)
{
    Facts facts;
    facts.command = std::move(command);
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view variable = *entry;
        const size_t equals = variable.find('=');
        if (equals != std::string_view::npos) {
            facts.environment.emplace(variable.substr(0, equals), variable.substr(equals + 1));
        }
    }
    std::error_code ignored;
    facts.directory = std::filesystem::current_path(ignored);
    utsname name{};
    if (uname(&name) == 0) {
        facts.host = name.nodename;
        facts.kernel = name.release;
    }
    facts.user = geteuid();
    std::vector<gid_t> groups(static_cast<size_t>(std::max(0, getgroups(0, nullptr))));
    const int count = getgroups(static_cast<int>(groups.size()), groups.data());
    groups.resize(static_cast<size_t>(std::max(0, count)));
    groups.push_back(getegid());
    facts.groups.assign(groups.begin(), groups.end());
    facts.locks_without_limit = locks_without_limit();
    facts.locked_memory = limit(RLIMIT_MEMLOCK);
    facts.descriptors = limit(RLIMIT_NOFILE);
    struct statvfs shared {};
    if (statvfs("/dev/shm", &shared) == 0) {
        facts.shared_memory = shared.f_blocks * shared.f_frsize;
    }
    return facts;
}

} // namespace gdr::doctor
