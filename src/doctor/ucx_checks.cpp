// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Checks of UCX and its settings.
#include "doctor/checks.hpp"

#include "doctor/reader/text.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace gdr::doctor {
namespace {

struct Fault {
    std::string text;
    std::string name; // of the variable
    Path file;
    Consequence consequence;
};

// UCX adds these to each transport's variables.
constexpr const char* kOfUcx[] = {"_MAX_SHORT",    "_MAX_BCOPY", "_MAX_ZCOPY",
                                  "_ALLOC",        "_FAILURE",   "_MAX_NUM_EPS",
                                  "_AM_SHORT_MEM", "_IFACE_",    "_RKEY_"};

bool is_of_ucx(const std::string& name)
{
    return std::ranges::any_of(
        kOfUcx, [&](const char* part) { return name.find(part) != std::string::npos; });
}

// Where the kernel shows no HCA there may be emulated ones, and those show no ports here.
bool shows_ports(const Machine& machine)
{
    return !machine.hcas.empty() && !machine.has_emulated_hcas();
}

bool names_port(const Machine& machine, const std::string& devices)
{
    if (!shows_ports(machine)) { // a colon is in the names of ports alone
        return lists(devices, "all") || devices.find(':') != std::string::npos;
    }
    return std::ranges::any_of(machine.hcas, [&](const Hca& hca) {
        return std::ranges::any_of(hca.ports,
                                   [&](const Port& port) { return lists(devices, port.name); });
    });
}

// What is wrong with a variable; empty: nothing.
std::string fault_of(const Machine& machine, const std::string& name, const std::string& value,
                     Consequence* consequence)
{
    *consequence = Consequence::no_gpudirect;
    if ((name == "UCX_TLS" || name == "UCX_MODULES") && !lists(value, "gdr")) {
        return name + "=" + value + " leaves gdr out";
    }
    if (name == "UCX_NET_DEVICES" && !names_port(machine, value)) {
        return name + "=" + value +
               (shows_ports(machine)
                    ? " names no port of this machine, such as " + machine.hcas[0].name + ":1"
                    : " names no port of an HCA");
    }
    *consequence = Consequence::loss;
    const auto& known = variables_of_gdr();
    if (name.starts_with("UCX_GDR_") && std::ranges::find(known, name) == known.end() &&
        !is_of_ucx(name)) {
        const std::string meant = nearest(name, known);
        return name + " is no variable of gdr" + (meant.empty() ? "" : ": is " + meant + " meant?");
    }
    return {};
}

std::vector<Fault> faults(const Machine& machine, bool of_files)
{
    std::vector<Fault> found;
    for (const auto& [name, setting] : machine.settings.values) {
        Consequence consequence = Consequence::none;
        const std::string text = fault_of(machine, name, setting.value, &consequence);
        if (!text.empty() && setting.file.empty() != of_files) {
            found.push_back({text, name, setting.file, consequence});
        }
    }
    std::ranges::stable_sort(found, std::greater(), &Fault::consequence);
    return found;
}

Result first_of(const std::vector<Fault>& found, const std::string& fix)
{
    std::vector<std::string> others;
    for (size_t i = 1; i < found.size(); ++i) {
        others.push_back(found[i].text);
    }
    Result result = fail(found[0].text, fix);
    result.detail = joined(others, "; ");
    result.consequence = found[0].consequence;
    for (const Fault& fault : found) {
        result.evidence.push_back(
            {fault.file.empty() ? fault.name : fault.file.native(), fault.text});
    }
    return result;
}

} // namespace

Result ucx_is_found(const Machine& machine)
{
    if (machine.ucx.libucp.empty()) {
        return fail("libucp.so.0 is not found: is UCX installed, or its directory in "
                    "LD_LIBRARY_PATH?",
                    "apt install libucx0")
            .by_root();
    }
    for (const char* name : {"libuct.so.0", "libucs.so.0"}) {
        const Path file = machine.ucx.libucs.parent_path() / name;
        if (!machine.root.exists(file)) {
            return fail(file.native() + " is missing beside libucp: install UCX completely", "")
                .seen_in(machine.ucx.libucp, "");
        }
    }
    return pass("UCX is " + machine.ucx.libucp.native()).seen_in("libucp.so.0", machine.ucx.libucp);
}

Result ucx_files(const Machine& machine)
{
    const auto found = faults(machine, true);
    if (!found.empty()) {
        const std::string file = found[0].file;
        Result result = first_of(found, "sed -i '/^ *" + found[0].name + " *=/d' " + file);
        result.summary = file + ": " + result.summary;
        return result;
    }
    const Path here = Path(machine.root.facts().directory) / "ucx.conf";
    const bool is_read =
        std::ranges::find(machine.settings.files, here) != machine.settings.files.end();
    if (is_read && machine.root.facts().directory != machine.command.variable("HOME")) {
        return fail("UCX reads " + here.native() + ", since programs start in this directory", "")
            .with_detail("a ucx.conf in the current directory counts more than those of the system "
                         "and of the user")
            .as(Consequence::none)
            .seen_in(here, "");
    }
    if (!machine.settings.unreadable.empty()) {
        const auto& [file, error] = *machine.settings.unreadable.begin();
        return unknown(file.native() + " cannot be read: " +
                       (error == ESPIPE ? "programs wait for what is written to this pipe"
                                        : std::generic_category().message(error)));
    }
    return pass(machine.settings.files.empty() ? "no ucx.conf is read"
                                               : "no ucx.conf that is read is in the way of gdr");
}

Result ucx_environment(const Machine& machine)
{
    const auto found = faults(machine, false);
    return found.empty() ? pass("no variable of UCX is in the way of gdr")
                         : first_of(found, "unset " + found[0].name);
}

Result other_ucx(const Machine& machine)
{
    if (machine.ucx.libucp.empty()) {
        return skipped("no UCX is found");
    }
    if (machine.ucx.has_cuda) {
        return fail("UCX has CUDA of its own (libuct_cuda beside " + machine.ucx.libucp.native() +
                        "): gdr is not needed there, and one of its transports",
                    "")
            .as(Consequence::none);
    }
    if (machine.ucx.others.empty()) {
        return pass("no other UCX was found");
    }
    std::vector<std::string> others(machine.ucx.others.begin(), machine.ucx.others.end());
    return fail("there is another UCX, which other programs get: " + joined(others, ", "), "")
        .with_detail("looked at here is " + machine.ucx.libucp.native() +
                     "; of two in a process gdr serves the one that is used first");
}

} // namespace gdr::doctor
