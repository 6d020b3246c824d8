// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucx-gdr-doctor, for "ucx-gdr doctor": says what is in the way of GPUDirect RDMA. It reads, and
// changes nothing.
#include "doctor/dump.hpp"
#include "doctor/examination.hpp"
#include "doctor/json.hpp"
#include "doctor/report.hpp"

#include "config.h"

#include <CLI/CLI.hpp>

#include <array>
#include <cstdio>
#include <ctime>
#include <string>
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
};

int examine(const Options& options)
{
    const Root root = options.replay.empty() ? Root("", facts_of_this_process(options.command))
                                             : read_dump(options.replay);
    const Machine machine(root);
    const Examination examination(machine);
    const std::string text =
        options.as_json ? to_json(examination, now()) : report(examination, options.style);
    std::fwrite(text.data(), 1, text.size(), stdout);
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
    app.add_option("--replay", options.replay, "look at such a directory instead of this host")
        ->excludes(dump);
    app.set_version_flag("--version", "ucx-gdr " PACKAGE_VERSION);
    app.prefix_command();
    try {
        app.parse(argc, argv);
        options.command = app.remaining();
        if (!options.command.empty() && options.command[0].starts_with('-')) {
            throw CLI::ExtrasError({options.command[0]});
        }
        options.style.colour = isatty(STDOUT_FILENO) == 1;
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : kWrongUsage;
    }
    return examine(options);
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
