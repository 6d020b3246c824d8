// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucx-gdr-doctor, for "ucx-gdr doctor": says what is in the way of GPUDirect RDMA. It reads, and
// changes nothing.
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

int examine(const std::vector<std::string>& command, const Style& style, bool as_json)
{
    const Root root("", facts_of_this_process(command));
    const Machine machine(root);
    const Examination examination(machine);
    const std::string text = as_json ? to_json(examination, now()) : report(examination, style);
    std::fwrite(text.data(), 1, text.size(), stdout);
    return examination.exit_status();
}

} // namespace

int main(int argc, char** argv)
{
    CLI::App app("What is in the way of GPUDirect RDMA on this host, in this environment, and how "
                 "to mend it.\n"
                 "With COMMAND: for that command line, which is not run.\n"
                 "Exit status: 0 nothing, 1 GPUDirect RDMA works with loss, 2 no GPUDirect RDMA, 3 "
                 "programs do not run.",
                 "ucx-gdr doctor");
    Style style;
    bool as_json = false;
    app.add_flag("--json", as_json, "in JSON (docs/reference/doctor.schema.json)");
    app.add_flag("--verbose", style.verbose, "also what passed, is unknown or was skipped");
    app.set_version_flag("--version", "ucx-gdr " PACKAGE_VERSION);
    app.prefix_command();
    try {
        app.parse(argc, argv);
        const auto command = app.remaining();
        if (!command.empty() && command[0].starts_with('-')) {
            throw CLI::ExtrasError({command[0]});
        }
        style.colour = isatty(STDOUT_FILENO) == 1;
        return examine(command, style, as_json);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : kWrongUsage;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "ucx-gdr doctor: %s\n", error.what());
        return kWrongUsage;
    }
}
