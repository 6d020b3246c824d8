// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Checks of what starts the command, and whether gdr comes with it.
#include "doctor/checks.hpp"

#include "doctor/reader/text.hpp"

#include <algorithm>

namespace gdr::doctor {
namespace {

// Whether the loader leaves LD_PRELOAD out, as the program takes another user or group.
bool takes_rights(const Root& root, const struct stat& status)
{
    const auto& groups = root.facts().groups;
    const bool other_user = (status.st_mode & S_ISUID) != 0 && status.st_uid != root.facts().user;
    const bool other_group =
        (status.st_mode & S_ISGID) != 0 && std::ranges::find(groups, status.st_gid) == groups.end();
    return other_user || other_group;
}

// What brings gdr into the command's processes; empty: nothing.
std::string way(const Machine& machine)
{
    const Command& command = machine.command;
    if (command.by_ucx_gdr) {
        return "ucx-gdr run";
    }
    for (const char* variable : {"LD_PRELOAD", "UCX_PLUGIN_PATH"}) {
        if (command.variable(variable).find(std::string(variable) == "LD_PRELOAD"
                                                ? "libuct_gdr.so"
                                                : "ucx-gdr/plugins") != std::string::npos) {
            return variable;
        }
    }
    if (machine.root.exists(machine.ucx.libucs.parent_path() / "ucx/libuct_gdr.so.0") ||
        machine.loader.find("libucs.so.0").native().find("/ucx-gdr/front/") != std::string::npos) {
        return "ucx-gdr setup";
    }
    return machine.loader.brought_by(command.program).contains("libuct_gdr.so.0") ? "linking" : "";
}

} // namespace

Result command_is_found(const Machine& machine)
{
    const Command& command = machine.command;
    if (!command.is_given()) {
        return skipped("no COMMAND was given");
    }
    if (!command.launcher.empty() && !machine.root.exists(command.launcher)) {
        return fail(command.launcher_name + " is not found", "echo $PATH");
    }
    if (!command.name.empty() && command.program.empty()) {
        return fail(command.name + " is not found", "echo $PATH");
    }
    return pass("the command is " +
                (command.name.empty() ? command.launcher : command.program).native());
}

Result command_gets_gdr(const Machine& machine)
{
    const Command& command = machine.command;
    const auto status = machine.root.status(command.program);
    if (command.program.empty() || !status) {
        return skipped("no COMMAND was given");
    }
    if (command.elf && command.elf->is_static_program()) {
        return fail(command.name + " is statically linked: nothing can be preloaded into it", "");
    }
    if (takes_rights(machine.root, *status)) {
        return fail(command.name +
                        " takes another user or group (set-uid): the loader preloads nothing there",
                    command.name + " ... ucx-gdr run COMMAND")
            .seen_in(command.program, "set-uid or set-gid");
    }
    if (command.elf && command.elf->has_capabilities && machine.root.facts().user != 0) {
        return fail(command.name +
                        " takes capabilities (setcap): the loader preloads nothing there",
                    "setcap -r " + command.program.native())
            .with_detail("or attach gdr to the UCX of the machine: ucx-gdr setup --system")
            .by_root()
            .seen_in(command.program, "security.capability");
    }
    const std::string by = way(machine);
    if (!by.empty()) {
        return pass("gdr comes by " + by);
    }
    const std::string launcher =
        command.launcher_name.empty() ? "" : command.launcher_name + " ... ";
    return fail("nothing brings gdr into " + command.name,
                launcher + "ucx-gdr run " + command.name + " ...")
        .seen_in("LD_PRELOAD", command.variable("LD_PRELOAD"));
}

} // namespace gdr::doctor
