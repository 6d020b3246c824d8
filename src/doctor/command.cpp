// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Reading a command line.
#include "doctor/command.hpp"

#include "doctor/reader/text.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace gdr::doctor {
namespace {

constexpr std::string_view kLaunchers[] = {"mpirun",
                                           "mpiexec",
                                           "orterun",
                                           "prterun",
                                           "mpirun.openmpi",
                                           "mpiexec.openmpi",
                                           "mpiexec.hydra",
                                           "mpirun.mpich",
                                           "mpiexec.mpich",
                                           "srun",
                                           "flux"};
// Options of launchers that take the next word.
constexpr std::string_view kWithValue[] = {
    "-n",        "-np",        "-c",         "-N",        "-H",       "-host",
    "--host",    "-hosts",     "--hostfile", "-hostfile", "-f",       "-machinefile",
    "-ppn",      "--map-by",   "--bind-to",  "--rank-by", "-wdir",    "--wdir",
    "--prefix",  "-p",         "-t",         "-w",        "-G",       "--np",
    "-path",     "-x",         "--gres",     "--ntasks",  "--nodes",  "--oversubscribe-by",
    "--timeout", "-bind-to",   "-map-by",    "-genvlist", "-envlist", "--tune",
    "-l",        "--launcher", "-launcher",  "--output",  "-o",       "--gpus"};
constexpr std::string_view kMca[] = {"--mca", "-mca", "--gmca", "-gmca"};
constexpr std::string_view kSetsVariable[] = {"-genv", "-env"};

template <size_t count>
bool is_one_of(const std::string& word, const std::string_view (&words)[count])
{
    return std::ranges::find(words, word) != std::end(words);
}

// "NAME=VALUE"
bool sets_variable(const std::string& word)
{
    const size_t equals = word.find('=');
    return equals != std::string::npos && equals > 0 && !std::isdigit(word[0]) &&
           std::all_of(word.begin(), word.begin() + static_cast<ptrdiff_t>(equals),
                       [](unsigned char letter) { return std::isalnum(letter) || letter == '_'; });
}

class Reader {
  public:
    explicit Reader(const Root& root) : root_(root), words_(root.facts().command)
    {
        command_.environment = root.facts().environment;
    }

    Command read()
    {
        while (next_ < words_.size()) {
            const std::string word = take();
            const std::string name = Path(word).filename();
            if (sets_variable(word)) {
                set(word);
            } else if (name == "env") {
                skip_options();
            } else if (is_one_of(name, kLaunchers)) {
                command_.launcher_name = word;
                command_.launcher = find_program(root_, word, command_.variable("PATH"));
                if (command_.launcher.empty()) {
                    command_.launcher = word;
                }
                read_options_of_launcher();
            } else if (name == "ucx-gdr" && next_ < words_.size() && words_[next_] == "run") {
                take();
                read_options_of_ucx_gdr();
            } else {
                command_.name = word;
                command_.program = find_program(root_, word, command_.variable("PATH"));
                command_.elf = root_.elf(command_.program);
                break;
            }
        }
        return command_;
    }

  private:
    std::string take() { return next_ < words_.size() ? words_[next_++] : ""; }
    bool is_option() const { return next_ < words_.size() && words_[next_].starts_with('-'); }

    void set(const std::string& assignment)
    {
        const size_t equals = assignment.find('=');
        command_.environment[assignment.substr(0, equals)] = assignment.substr(equals + 1);
    }

    void skip_options()
    {
        while (is_option()) {
            take();
        }
    }

    void read_options_of_launcher()
    {
        while (is_option()) {
            const std::string option = take();
            if (is_one_of(option, kMca)) {
                const std::string name = take();
                command_.mca[name] = take();
            } else if (is_one_of(option, kSetsVariable)) {
                const std::string name = take();
                command_.environment[name] = take();
            } else if (option == "-x" && next_ < words_.size() && sets_variable(words_[next_])) {
                set(take());
            } else if (is_one_of(option, kWithValue)) {
                take();
            }
        }
    }

    void read_options_of_ucx_gdr()
    {
        command_.by_ucx_gdr = true;
        while (is_option()) {
            const std::string option = take();
            if (option == "--") {
                break;
            }
            if (option == "--no-plugin") {
                command_.by_ucx_gdr = false;
            } else if (option == "--no-emulation") {
                command_.environment["GDR_EMULATION"] = "no";
            } else if (option.starts_with("--emulate-")) {
                command_.emulation += (command_.emulation.empty() ? "" : " ") + option;
            }
        }
    }

    const Root& root_;
    const std::vector<std::string>& words_;
    size_t next_ = 0;
    Command command_;
};

} // namespace

std::string Command::variable(const std::string& variable_name) const
{
    const auto found = environment.find(variable_name);
    return found == environment.end() ? "" : found->second;
}

Command read_command(const Root& root)
{
    return Reader(root).read();
}

Path find_program(const Root& root, const std::string& name, const std::string& path)
{
    if (name.find('/') != std::string::npos) {
        return root.exists(name) ? root.resolved(name) : Path();
    }
    for (const std::string& directory : split(path, ':')) {
        const auto status = root.status(Path(directory) / name);
        if (status && S_ISREG(status->st_mode) && (status->st_mode & 0111) != 0) {
            return root.resolved(Path(directory) / name);
        }
    }
    return {};
}

} // namespace gdr::doctor
