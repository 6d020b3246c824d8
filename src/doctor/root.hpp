// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A machine as the checks see it: the files below a directory, and the facts of a process. A check
// reads nothing else, so that it can be tried on the files of any machine.
#pragma once

#include "doctor/facts.hpp"

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <sys/stat.h>

namespace gdr::doctor {

using Path = std::filesystem::path;

class Root {
  public:
    // directory: where the machine's "/" is; empty for this machine.
    Root(Path directory, Facts facts);

    const Facts& facts() const { return facts_; }

    struct Text {
        std::string text;
        int error; // of errno; 0: it was read

        explicit operator bool() const { return error == 0; }
    };
    Text read(const Path& file) const;
    // The first line; empty if there is none.
    std::string line(const Path& file) const;

    // The names in a directory, in order; none if it cannot be read.
    std::vector<std::string> list(const Path& directory) const;
    bool exists(const Path& file) const { return status(file).has_value(); }
    std::optional<struct stat> status(const Path& file) const;
    // Whether the process may read and write the file, by its mode.
    bool may_use(const struct stat& status) const;

    // The path without symbolic links, as a process sees it that has the root for its "/". The
    // file need not be there.
    Path resolved(const Path& file) const;
    // Where the file is on the disk of this machine, for those who read it in their own way.
    Path on_disk(const Path& file) const;

    // The files that were asked for.
    const std::set<Path>& seen() const { return seen_; }

  private:
    const Path directory_;
    const Facts facts_;
    mutable std::set<Path> seen_;
};

} // namespace gdr::doctor
