// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the checks know of a process beside files: environment, limits, rights.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gdr::doctor {

struct Facts {
    std::map<std::string, std::string> environment;
    std::vector<std::string> command; // what is to be run; empty: nothing
    std::string directory;            // where
    std::string host;
    std::string kernel; // its release, "6.1.0-13-amd64"
    unsigned user = 0;
    std::vector<unsigned> groups;
    bool locks_without_limit = false; // CAP_IPC_LOCK, in the user namespace of the kernel's start
    std::optional<uint64_t> locked_memory; // bytes; none: unlimited
    std::optional<uint64_t> descriptors;
    std::string ucx_version; // of the UCX that was found, in its own words; empty: it was not asked
    std::optional<uint64_t> shared_memory; // bytes of /dev/shm; none: there is no such file system

    // Empty if it is not set.
    std::string variable(const std::string& name) const;
};

Facts facts_of_this_process(std::vector<std::string> command);

} // namespace gdr::doctor
