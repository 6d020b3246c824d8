// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A machine as the checks see it: the files below a directory, and the facts of a process. A check
// reads nothing else, so that it can be tried on the files of any machine.
#pragma once

#include "doctor/reader/elf.hpp"
#include "doctor/reader/facts.hpp"

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/stat.h>

namespace gdr::doctor {

using Path = std::filesystem::path;

class Root {
  public:
    // directory: where the machine's "/" is; empty for this machine. programs: what is known of ELF
    // files that are not there.
    Root(Path directory, Facts facts, std::map<Path, Elf> programs = {});

    const Facts& facts() const { return facts_; }
    // Once it is known which UCX there is.
    void learn_ucx_version(const std::string& version) { facts_.ucx_version = version; }

    struct Text {
        std::string text;
        int error; // of errno; 0: it was read

        explicit operator bool() const { return error == 0; }
    };
    Text read(const Path& file) const;
    // The first line; empty if there is none.
    std::string line(const Path& file) const;

    // The names in a directory that begin so, in order; none if it cannot be read.
    std::vector<std::string> list(const Path& directory, const std::string& beginning = "") const;
    bool exists(const Path& file) const { return status(file).has_value(); }
    std::optional<struct stat> status(const Path& file) const;
    // Whether the process may read and write the file: on this machine the kernel says so, which
    // knows access lists; of others the mode.
    bool may_use(const Path& file) const;

    // The path without symbolic links, as a process sees it that has the root for its "/". The
    // file need not be there.
    Path resolved(const Path& file) const;

    // None if it is no ELF file.
    std::optional<Elf> elf(const Path& file) const;

    // What was asked for, for a dump. Paths are without symbolic links.
    struct Seen {
        bool was_read = false;
        std::vector<std::string> names; // of a directory, as far as they were listed
    };
    const std::map<Path, Seen>& seen() const { return seen_; }
    const std::map<Path, Path>& links() const { return links_; } // and their targets
    const std::map<Path, Elf>& programs() const { return programs_; }

  private:
    bool is_this_machine() const { return directory_.empty(); }
    Path on_disk(const Path& resolved) const { return directory_.native() + resolved.native(); }

    const Path directory_;
    Facts facts_;
    mutable std::map<Path, Seen> seen_;
    mutable std::map<Path, Path> links_;
    mutable std::map<Path, Elf> programs_;
};

} // namespace gdr::doctor
