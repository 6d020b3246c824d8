// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What UCX's variables are, and where each is set.
#pragma once

#include "doctor/command.hpp"

#include <map>
#include <string>
#include <vector>

namespace gdr::doctor {

struct Setting {
    std::string value;
    Path file; // empty: the environment

    std::string origin() const { return file.empty() ? "the environment" : file.native(); }
};

struct Settings {
    std::map<std::string, Setting> values;
    std::vector<Path> files;        // those that are there, in the order in which UCX reads them
    std::map<Path, int> unreadable; // also there, and what of errno keeps us from reading them

    const Setting* find(const std::string& name) const;
    std::string value(const std::string& name) const;
};

// libucs: that of the UCX in question; empty: unknown.
Settings read_settings(const Root& root, const Command& command, const Path& libucs);

// Variables UCX_GDR_*.
const std::vector<std::string>& variables_of_gdr();

} // namespace gdr::doctor
