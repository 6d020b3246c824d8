// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Prints the manual page of the variables, from the tables that ucx_info -f shows; with --markdown
// the text for docs/reference/variables.md. It runs while ucx-gdr is built, and is not installed.
#include "config.h"
#include "copy/memory_domain.hpp"
#include "copy/settings.hpp"
#include "ipc/settings.hpp"
#include "plugin/options.hpp"
#include "rc/queues/settings.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

namespace {

// Escapes what troff would take for a request or an escape.
std::string escaped(const char* text)
{
    std::string result;
    for (bool at_start = true; *text; at_start = *text++ == '\n') {
        if (at_start && (*text == '.' || *text == '\'')) {
            result += "\\&";
        }
        if (*text == '\\' || *text == '-') {
            result += '\\';
        }
        result += *text;
        if (*text == '\\') {
            result += 'e';
        }
    }
    return result;
}

void print_manual(const gdr::abi::OptionTable& table)
{
    std::printf(".SS %s\n", escaped(table.name).c_str());
    for (const gdr::abi::Option& option : table.options) {
        std::printf(".TP\n\\fBUCX_%s%s\\fR=%s\n%s\n", table.prefix, option.name,
                    escaped(option.default_value).c_str(), escaped(option.doc).c_str());
    }
}

std::string values(const gdr::abi::Option& option)
{
    using gdr::abi::OptionType;
    switch (option.type) {
    case OptionType::boolean:
        return "y, n";
    case OptionType::ternary:
        return "yes, no, try";
    case OptionType::unsigned_int:
        return "numbers";
    case OptionType::auto_ulong:
        return "numbers, auto";
    case OptionType::memory_size:
        return "bytes, as in 8k, 1m, inf";
    case OptionType::duration:
        return "times, as in 10ms, 1s";
    case OptionType::choice: {
        std::string all;
        for (const char* const* name = option.names; *name; ++name) {
            all += (all.empty() ? "" : ", ") + std::string(*name);
        }
        return all;
    }
    default:
        return "text";
    }
}

void print_markdown(const gdr::abi::OptionTable& table)
{
    for (const gdr::abi::Option& option : table.options) {
        const std::string value = option.default_value;
        std::string text = option.doc;
        std::ranges::replace(text, '\n', ' ');
        std::printf("### UCX_%s%s\n\nDefault: %s. Values: %s.\n\n%s\n\n", table.prefix, option.name,
                    value.empty() ? "empty" : ("`" + value + "`").c_str(), values(option).c_str(),
                    text.c_str());
    }
}

void print_all(void (*print)(const gdr::abi::OptionTable&))
{
    print(gdr::plugin::option_table());
    print(gdr::copy::md_options());
    print(gdr::copy::iface_options());
    print(gdr::ipc::md_options());
    print(gdr::ipc::iface_options());
    print(gdr::rc::md_options());
    print(gdr::rc::iface_options());
}

} // namespace

int main(int argc, char** argv)
{
    if (argc > 1 && std::string_view(argv[1]) == "--markdown") {
        print_all(print_markdown);
        return 0;
    }
    std::printf(
        ".TH UCX\\-GDR 7 \"\" \"ucx\\-gdr %s\"\n"
        ".SH NAME\nucx\\-gdr \\- variables of the gdr transport\n"
        ".SH DESCRIPTION\n"
        "Read by UCX from the environment or its configuration file; shown with their defaults.\n"
        ".B ucx\\-gdr run ucx_info \\-f\nshows those of the UCX that is there.\n"
        ".SH VARIABLES\n",
        PACKAGE_VERSION);
    print_all(print_manual);
    std::printf(".SH SEE ALSO\n.BR ucx\\-gdr (1)\n");
}
