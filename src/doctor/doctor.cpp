// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucx-gdr-doctor, for "ucx-gdr doctor": says what is in the way of GPUDirect RDMA. It reads, and
// changes nothing.
#include "doctor/dump.hpp"
#include "doctor/examination.hpp"
#include "doctor/exchange.hpp"
#include "doctor/job.hpp"
#include "doctor/json.hpp"
#include "doctor/pair.hpp"
#include "doctor/peer/mark.hpp"
#include "doctor/pseudonyms.hpp"
#include "doctor/reader/text.hpp"
#include "doctor/report.hpp"

#include "config.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <unistd.h>

namespace {

using namespace gdr::doctor;

constexpr int kWrongUsage = 64; // the smaller ones are verdicts

std::string now()
{
    const std::time_t seconds = std::time(nullptr);
    std::tm time{};
    std::array<char, 32> text{};
    gmtime_r(&seconds, &time);
    std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &time);
    return text.data();
}

struct Options {
    std::vector<std::string> command;
    Style style;
    bool as_json = false;
    std::string dump;   // where to
    std::string replay; // where from
    bool of_job = false;
    std::string job_directory = ".";
    double job_patience = 20; // seconds
    // From ucx-gdr, which knows launchers.
    std::optional<unsigned> rank;
    unsigned ranks = 0;
    std::string job;
    std::string ucx_version; // a program: src/tools/ucx_version.cpp
    PairSetUp pair;
    std::string launcher = "ssh"; // words
    std::string far;              // this is the other side of a pair; the first one's host
    bool transfers = false;       // which is to make transfers, and not to tell what it has
    bool hides_names = false;
};

// What is wrong with a word that a launcher gets as the name of a host: nothing, or it would be
// taken for an option.
std::string wrong_host(const std::string& name)
{
    return name.empty() || name[0] == '-' ? "\"" + name + "\" is no name of a host" : "";
}

std::string wrong_launcher(const std::string& text)
{
    return split(text, ' ').empty() ? "there is no command in \"" + text + "\"" : "";
}

std::string wrong_patience(const std::string& text)
{
    constexpr double kMost = 86400;
    char* end = nullptr;
    const double seconds = std::strtod(text.c_str(), &end);
    const bool is_number = end != text.c_str() && *end == '\0';
    return is_number && seconds >= 0 && seconds <= kMost ? "" : "\"" + text + "\" is no time";
}

void print(const std::string& text)
{
    std::fwrite(text.data(), 1, text.size(), stdout);
}

// Asks UCX, if it is on this machine.
void learn_ucx_version(Root* root, const Path& libucp, const Options& options)
{
    if (libucp.empty() || options.ucx_version.empty() || !options.replay.empty()) {
        return;
    }
    const std::string command =
        "'" + options.ucx_version + "' '" + libucp.native() + "' 2>/dev/null";
    FILE* answer = popen(command.c_str(), "r");
    if (answer == nullptr) {
        return;
    }
    std::array<char, 64> version{};
    if (std::fscanf(answer, "UCX %63s", version.data()) == 1) {
        root->learn_ucx_version(version.data());
    }
    pclose(answer);
}

// Copies the standard input, without the names that a dump leaves out.
int hide_names()
{
    const Pseudonyms names(facts_of_this_process({}));
    for (std::string line; std::getline(std::cin, line);) {
        print(names.replaced(line) + "\n");
    }
    return 0;
}

int examine_job(const Options& options)
{
    if (!options.rank || options.ranks == 0) {
        throw std::runtime_error("--job: no launcher has set the number of this rank and of all: "
                                 "mpirun -n N ucx-gdr doctor --job");
    }
    Root root("", facts_of_this_process(options.command));
    const Machine machine(root);
    learn_ucx_version(&root, machine.ucx.libucp, options);
    const Examination examination(machine);
    RankReport own = report_of(*options.rank, examination);
    const Exchange exchange(
        options.job_directory, options.job,
        std::chrono::milliseconds(static_cast<long>(1000 * options.job_patience)));
    if (*options.rank != 0) {
        exchange.tell(*options.rank, to_text(own));
        return 0; // the first rank has the verdict
    }
    std::vector<RankReport> reports{std::move(own)};
    for (const std::string& text : exchange.gather(options.ranks - 1)) {
        reports.push_back(read_rank_report(text));
    }
    std::ranges::sort(reports, {}, &RankReport::rank);
    const Job job(std::move(reports), options.ranks);
    print(options.as_json ? to_json(job, now()) : report(job, options.style));
    return static_cast<int>(worst(job.plain_findings()));
}

// Of one side of a pair, whose transfers are made in the environment of that command.
RankReport examine_side(unsigned rank, const std::vector<std::string>& command,
                        const Options& options)
{
    Root root("", facts_of_this_process(command));
    const Machine machine(root);
    learn_ucx_version(&root, machine.ucx.libucp, options);
    return report_of(rank, Examination(machine));
}

int examine_pair(const Options& options)
{
    PairSetUp set_up = options.pair;
    set_up.near_host = facts_of_this_process({}).host;
    if (set_up.host != "localhost") {
        set_up.launcher = split(options.launcher, ' ');
    }
    const Pairing pairing = examine_pair(
        set_up,
        [&](const std::vector<std::string>& command) { return examine_side(0, command, options); },
        [](const std::string& what) {
            std::fprintf(stderr, "ucx-gdr doctor: %s\n", what.c_str());
        });
    print(options.as_json ? to_json(pairing, now()) : report(pairing, options.style));
    return static_cast<int>(worst(pairing.job.plain_findings()));
}

// Tells what this side has, or becomes what makes its transfers.
int be_far_side(const Options& options)
{
    const bool same_host = facts_of_this_process({}).host == options.far;
    std::vector<std::string> command = peer_command(options.pair, same_host, options.command);
    if (!options.transfers) {
        print(std::string(gdr::peer::kMark) + "report " PACKAGE_VERSION " " +
              to_text(examine_side(1, command, options)) + "\n");
        return 0;
    }
    std::vector<char*> words;
    words.reserve(command.size() + 1);
    for (std::string& word : command) {
        words.push_back(word.data());
    }
    words.push_back(nullptr);
    execv(words[0], words.data());
    throw std::system_error(errno, std::generic_category(), command[0]);
}

int examine(const Options& options)
{
    Root root = options.replay.empty() ? Root("", facts_of_this_process(options.command))
                                       : read_dump(options.replay);
    const Machine machine(root);
    learn_ucx_version(&root, machine.ucx.libucp, options);
    const Examination examination(machine);
    print(options.as_json ? to_json(examination, now()) : report(examination, options.style));
    if (!options.dump.empty()) {
        write_dump(root, options.dump);
    }
    return examination.exit_status();
}

int run(int argc, char** argv)
{
    CLI::App app("What is in the way of GPUDirect RDMA on this host, in this environment, and how "
                 "to mend it.\n"
                 "With COMMAND: for that command line, which is not run.\n"
                 "Exit status: 0 nothing, 1 GPUDirect RDMA works with loss, 2 no GPUDirect RDMA, 3 "
                 "programs do not run.",
                 "ucx-gdr doctor");
    Options options;
    app.add_flag("--json", options.as_json, "in JSON (docs/reference/doctor.schema.json)");
    app.add_flag("--verbose", options.style.verbose, "also what passed, is unknown or was skipped");
    auto* dump =
        app.add_option("--dump", options.dump,
                       "also write what was read to this new directory, to be looked at elsewhere");
    auto* replay =
        app.add_option("--replay", options.replay, "look at such a directory instead of this host")
            ->excludes(dump);
    auto* job =
        app.add_flag("--job", options.of_job,
                     "each rank of a job looks, and the first tells what they have, and what "
                     "differs: mpirun -n N ucx-gdr doctor --job")
            ->excludes(dump)
            ->excludes(replay);
    app.add_option("--job-dir", options.job_directory,
                   "a directory that all hosts share, by which ranks tell the first one (default: "
                   "the current one); nothing is left there")
        ->needs(job);
    app.add_option("--job-wait", options.job_patience,
                   "seconds without news until the first rank goes on without the others (default: "
                   "20)")
        ->check(wrong_patience)
        ->needs(job);
    auto* pair =
        app.add_option("--pair", options.pair.host,
                       "transfer data to and from this host and check them: which link is slow, "
                       "and what differs. \"localhost\": a second process here")
            ->check(wrong_host)
            ->excludes(dump)
            ->excludes(replay)
            ->excludes(job);
    app.add_option("--launcher", options.launcher,
                   "what starts a command on that host, whose name follows it (default: ssh)")
        ->check(wrong_launcher)
        ->needs(pair);
    app.add_option("--far", options.far)->group("");
    app.add_flag("--transfers", options.transfers)->group("");
    app.add_option("--tool", options.pair.tool)->group("");
    app.add_option("--peer", options.pair.peer)->group("");
    app.add_option("--rank", options.rank)->group("");
    app.add_option("--ranks", options.ranks)->group("");
    app.add_option("--job-name", options.job)->group("");
    app.add_option("--ucx-version", options.ucx_version)->group("");
    app.add_flag("--hide-names", options.hides_names)->group(""); // for contrib/field
    app.set_version_flag("--version", "ucx-gdr " PACKAGE_VERSION);
    app.prefix_command();
    try {
        app.parse(argc, argv);
        options.command = app.remaining();
        const bool takes_none = !options.pair.host.empty();
        if (!options.command.empty() && (takes_none || options.command[0].starts_with('-'))) {
            throw CLI::ExtrasError({options.command[0]});
        }
        options.style.colour = isatty(STDOUT_FILENO) == 1;
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : kWrongUsage;
    }
    if (options.hides_names) {
        return hide_names();
    }
    if (!options.far.empty()) {
        return be_far_side(options);
    }
    if (!options.pair.host.empty()) {
        return examine_pair(options);
    }
    return options.of_job ? examine_job(options) : examine(options);
}

} // namespace

int main(int argc, char** argv)
{
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "ucx-gdr doctor: %s\n", error.what());
        return kWrongUsage;
    }
}
