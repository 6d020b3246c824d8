// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Looking for libraries.
#include "doctor/loader.hpp"

#include "doctor/reader/text.hpp"

#include <fnmatch.h>

namespace gdr::doctor {
namespace {

constexpr int kDeepestInclude = 4;
constexpr const char* kDefaults[] = {"/lib64", "/usr/lib64", "/lib", "/usr/lib"};

std::string with_origin(std::string directory, const Path& origin)
{
    for (const std::string word : {"$ORIGIN", "${ORIGIN}"}) {
        const size_t at = directory.find(word);
        if (at != std::string::npos) {
            directory.replace(at, word.size(), origin.native());
        }
    }
    return directory;
}

} // namespace

Loader::Loader(const Root& root, const Command& command)
    : root_(root), first_(split(command.variable("LD_LIBRARY_PATH"), ':'))
{
    read_configuration("/etc/ld.so.conf", 0);
    last_.insert(last_.end(), std::begin(kDefaults), std::end(kDefaults));
}

Path Loader::find(const std::string& name, const Elf& user, const Path& users_directory) const
{
    if (name.find('/') != std::string::npos) {
        return root_.exists(name) ? Path(name) : Path();
    }
    for (const auto* directories : {&user.rpath, &first_, &user.runpath, &last_}) {
        for (const std::string& directory : *directories) {
            Path file = Path(with_origin(directory, users_directory)) / name;
            if (root_.exists(file)) {
                return file;
            }
        }
    }
    return {};
}

std::map<std::string, Path> Loader::brought_by(const Path& file) const
{
    std::map<std::string, Path> found;
    std::vector<Path> to_read{file};
    while (!to_read.empty()) {
        const Path user = root_.resolved(to_read.back());
        to_read.pop_back();
        const auto elf = root_.elf(user);
        if (!elf) {
            continue;
        }
        for (const std::string& name : elf->needed) {
            if (found.contains(name)) {
                continue;
            }
            const Path library = find(name, *elf, user.parent_path());
            found[name] = library;
            if (!library.empty()) {
                to_read.push_back(library);
            }
        }
    }
    return found;
}

void Loader::read_configuration(const Path& file, int depth)
{
    for (const std::string& line : lines(root_.read(file).text)) {
        const std::string entry = trimmed(line.substr(0, line.find('#')));
        if (!entry.starts_with("include")) {
            if (!entry.empty()) {
                last_.push_back(entry);
            }
            continue;
        }
        Path pattern = trimmed(entry.substr(7));
        if (pattern.is_relative()) {
            pattern = file.parent_path() / pattern;
        }
        for (const std::string& name : root_.list(pattern.parent_path())) {
            if (depth < kDeepestInclude &&
                fnmatch(pattern.filename().c_str(), name.c_str(), 0) == 0) {
                read_configuration(pattern.parent_path() / name, depth + 1);
            }
        }
    }
}

} // namespace gdr::doctor
