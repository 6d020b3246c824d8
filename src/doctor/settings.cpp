// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Reading UCX's settings.
#include "doctor/settings.hpp"

#include "doctor/reader/text.hpp"

#include <algorithm>
#include <cerrno>

namespace gdr::doctor {
namespace {

// Those in front of the file's first section: a section holds for some processors alone.
void read_file(const Root& root, const Path& file, Settings* settings)
{
    const auto text = root.read(file);
    if (!text && text.error != ENOENT && text.error != ENOTDIR) {
        settings->unreadable[file] = text.error;
    }
    if (!text || std::ranges::find(settings->files, file) != settings->files.end()) {
        return;
    }
    settings->files.push_back(file);
    for (const std::string& line : lines(text.text)) {
        std::string name;
        std::string value;
        if (trimmed(line).starts_with("[")) {
            break;
        }
        if (parse_assignment(line, &name, &value)) {
            settings->values[name] = {value, file};
        }
    }
}

} // namespace

const Setting* Settings::find(const std::string& name) const
{
    const auto found = values.find(name);
    return found == values.end() ? nullptr : &found->second;
}

std::string Settings::value(const std::string& name) const
{
    const Setting* setting = find(name);
    return setting == nullptr ? "" : setting->value;
}

Settings read_settings(const Root& root, const Command& command, const Path& libucs)
{
    // The order is UCX's: the later counts.
    constexpr const char* kName = "ucx.conf";
    Settings settings;
    read_file(root, Path("/etc/ucx") / kName, &settings);
    if (!libucs.empty()) {
        const Path prefix = root.resolved(libucs).parent_path().parent_path();
        read_file(root, prefix / "etc/ucx" / kName, &settings);
    }
    for (const char* variable : {"HOME", "UCX_CONFIG_DIR"}) {
        const std::string directory = command.variable(variable);
        if (!directory.empty()) {
            read_file(root, Path(directory) / kName, &settings);
        }
    }
    read_file(root, Path(root.facts().directory) / kName, &settings);
    for (const auto& [name, value] : command.environment) {
        if (name.starts_with("UCX_")) {
            settings.values[name] = {value, {}};
        }
    }
    return settings;
}

const std::vector<std::string>& variables_of_gdr()
{
    static const std::vector<std::string> names = {
#include "doctor/variable_names.inc"
    };
    return names;
}

} // namespace gdr::doctor
