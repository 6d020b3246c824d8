// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Writing and reading dumps.
#include "doctor/dump.hpp"

#include "doctor/gzip.hpp"
#include "doctor/pseudonyms.hpp"
#include "verbs/sysfs.hpp"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include <nlohmann/json.hpp>

namespace gdr::doctor {

using nlohmann::json;

// For json: null where there is no value.
static json of_limit(const std::optional<uint64_t>& limit)
{
    return limit ? json(*limit) : json();
}

static std::optional<uint64_t> limit_of(const json& value)
{
    return value.is_null() ? std::nullopt : std::optional(value.get<uint64_t>());
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Elf, has_interpreter, is_dynamic, has_device_code, needed, rpath,
                                   runpath)

namespace {

namespace fs = std::filesystem;

constexpr int kFormat = 1;
constexpr const char* kFactsFile = "facts.json";
constexpr const char* kFiles = "root";
constexpr std::string_view kPrefixes[] = {"UCX_", "OMPI_MCA_", "GDR_", "UGDR_", "LD_", "CUDA_"};
constexpr std::string_view kNames[] = {"PATH",         "HOME",         "container",
                                       "SLURM_JOB_ID", "VIRTUAL_ENV",  "FI_PROVIDER",
                                       "CONDA_PREFIX", "HPCX_UCX_DIR", "RDMAV_FORK_SAFE"};

bool is_kept(const std::string& variable)
{
    return std::ranges::find(kNames, variable) != std::end(kNames) ||
           std::ranges::any_of(
               kPrefixes, [&](std::string_view prefix) { return variable.starts_with(prefix); });
}

class Dump {
  public:
    Dump(const Root& root, const Path& directory)
        : root_(root), directory_(directory), names_(root.facts())
    {
        if (!fs::create_directories(directory)) {
            throw std::runtime_error(directory.native() + " is there already");
        }
    }

    void write()
    {
        // In this order: what is a link or a directory cannot be made as a file first.
        const auto seen = root_.seen();
        for (const auto& [link, target] : std::map(root_.links())) {
            const Path place = below(link);
            fs::create_directories(place.parent_path());
            if (!fs::is_symlink(fs::symlink_status(place))) {
                fs::create_symlink(names_.replaced(target), place);
            }
        }
        for (const auto& [path, how] : seen) {
            if (const auto status = root_.status(path); status && S_ISDIR(status->st_mode)) {
                fs::create_directories(below(path));
            }
        }
        for (const auto& [path, how] : seen) {
            if (const auto status = root_.status(path); status && !S_ISDIR(status->st_mode)) {
                write_file(path, *status, how.was_read);
            }
        }
        for (const auto& [path, how] : seen) {
            for (const std::string& name : how.names) {
                write_name(path / name);
            }
        }
        std::ofstream(directory_ / kFactsFile)
            << facts().dump(2, ' ', false, json::error_handler_t::replace) << "\n";
    }

  private:
    Path below(const Path& path) const
    {
        return (directory_ / kFiles).native() + names_.replaced(path);
    }

    void write_file(const Path& path, const struct stat& status, bool was_read)
    {
        const Path place = below(path);
        fs::create_directories(place.parent_path());
        std::ofstream file(place);
        int error = 0;
        if (was_read && S_ISREG(status.st_mode)) {
            const auto text = root_.read(path);
            error = text.error;
            file << contents(path, unpacked(text.text)); // or names in it could not be replaced
        }
        file.close();
        // For those who look at it: what the process might do, whoever owns it.
        mode_t mode = error == EACCES || error == EPERM ? 0 : root_.may_use(path) ? 0666 : 0444;
        mode |= status.st_mode & (0111 | S_ISUID | S_ISGID);
        fs::permissions(place, static_cast<fs::perms>(mode));
    }

    std::string contents(const Path& path, const std::string& text)
    {
        const std::string name = path.filename();
        if (name == "node_desc" || name == "vpd") { // the rest are names and serial numbers
            return text.find(verbs::kSwitchManagement) == std::string::npos
                       ? ""
                       : std::string(verbs::kSwitchManagement);
        }
        if (path.parent_path().filename() == "gids") {
            return names_.replaced_gid(text);
        }
        return names_.replaced(text);
    }

    // A file that nobody asked for, but whose name was seen.
    void write_name(const Path& path) const
    {
        const Path place = below(path);
        if (!fs::exists(fs::symlink_status(place))) {
            std::ofstream file(place);
        }
    }

    json facts()
    {
        const Facts& facts = root_.facts();
        json environment = json::object();
        for (const auto& [name, value] : facts.environment) {
            if (is_kept(name)) {
                environment[name] = names_.replaced(value);
            }
        }
        json command = json::array();
        for (const std::string& word : facts.command) {
            command.push_back(names_.replaced(word));
        }
        json programs = json::object();
        json with_capabilities = json::array();
        for (const auto& [path, elf] : root_.programs()) {
            programs[names_.replaced(path)] = elf;
            if (elf.has_capabilities) {
                with_capabilities.push_back(names_.replaced(path));
            }
        }
        return {{"format", kFormat},
                {"environment", environment},
                {"command", command},
                {"directory", names_.replaced(facts.directory)},
                {"host", names_.replaced(facts.host)},
                {"kernel", facts.kernel},
                {"ucx_version", facts.ucx_version},
                {"user", facts.user},
                {"groups", facts.groups},
                {"locks_without_limit", facts.locks_without_limit},
                {"locked_memory", of_limit(facts.locked_memory)},
                {"descriptors", of_limit(facts.descriptors)},
                {"shared_memory", of_limit(facts.shared_memory)},
                {"programs", programs},
                {"with_capabilities", with_capabilities}};
    }

    const Root& root_;
    const Path directory_;
    Pseudonyms names_;
};

} // namespace

void write_dump(const Root& root, const Path& directory)
{
    Dump(root, directory).write();
}

Root read_dump(const Path& directory)
{
    std::ifstream file(directory / kFactsFile);
    if (!file) {
        throw std::system_error(errno, std::generic_category(), directory / kFactsFile);
    }
    const json dump = json::parse(file);
    if (dump.at("format") != kFormat) {
        throw std::runtime_error(directory.native() + " is of another ucx-gdr");
    }
    Facts facts;
    dump.at("environment").get_to(facts.environment);
    dump.at("command").get_to(facts.command);
    dump.at("directory").get_to(facts.directory);
    dump.at("host").get_to(facts.host);
    dump.at("kernel").get_to(facts.kernel);
    facts.ucx_version = dump.value("ucx_version", ""); // since 0.2
    dump.at("user").get_to(facts.user);
    dump.at("groups").get_to(facts.groups);
    dump.at("locks_without_limit").get_to(facts.locks_without_limit);
    facts.locked_memory = limit_of(dump.at("locked_memory"));
    facts.descriptors = limit_of(dump.at("descriptors"));
    facts.shared_memory = limit_of(dump.at("shared_memory"));
    std::map<Path, Elf> programs;
    for (const auto& [path, elf] : dump.at("programs").items()) {
        programs[path] = elf;
    }
    for (const std::string path : dump.value("with_capabilities", json::array())) { // since 0.2
        programs[path].has_capabilities = true;
    }
    return Root(fs::absolute(directory / kFiles), facts, programs);
}

} // namespace gdr::doctor
