// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Libraries as the dynamic loader finds them. It looks into /etc/ld.so.conf in the place of its
// cache, which ldconfig makes of that.
#pragma once

#include "doctor/command.hpp"

#include <map>
#include <string>
#include <vector>

namespace gdr::doctor {

class Loader {
  public:
    Loader(const Root& root, const Command& command);

    // The file that is loaded for a name; empty if there is none.
    Path find(const std::string& name) const { return find(name, Elf(), Path()); }

    // What a program or library brings along: files by their names, and empty for those that are
    // not found.
    std::map<std::string, Path> brought_by(const Path& file) const;

  private:
    Path find(const std::string& name, const Elf& user, const Path& users_directory) const;
    void read_configuration(const Path& file, int depth);

    const Root& root_;
    std::vector<std::string> first_; // LD_LIBRARY_PATH
    std::vector<std::string> last_;
};

} // namespace gdr::doctor
